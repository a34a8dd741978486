package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/pki"
)

// An authority makes certificates for loopback.
type authority struct{ *pki.Authority }

func newAuthority(t *testing.T) authority { return authority{pki.New(t)} }

// issue makes a certificate, and its files.
func (a authority) issue(t *testing.T, cn string, uris ...string) (pair tls.Certificate, cert, key string) {
	return a.issueAs(t, cn, func(c *x509.Certificate) {
		for _, text := range uris {
			u, err := url.Parse(text)
			require.NoError(t, err)
			c.URIs = append(c.URIs, u)
		}
	})
}

func (a authority) issueAs(t *testing.T, cn string, change func(*x509.Certificate)) (pair tls.Certificate, cert, key string) {
	cert, key = a.IssueFor(cn, func(c *x509.Certificate) {
		c.IPAddresses = pki.Loopback
		change(c)
	})
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	return pair, cert, key
}

var serving = regexp.MustCompile(`msg=serving address=(127\.0\.0\.1:\d+)`)

// address is that of --listen, as it is logged.
func (p *pawld) address() string {
	p.t.Helper()
	eventually(p.t, func() bool { return serving.MatchString(p.said()) })
	return serving.FindStringSubmatch(p.said())[1]
}

func TestMutualTLSSaysWhoAsksAndThePolicyWhatTheyMay(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	_, cert, key := a.issue(t, "pawld")
	policy := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(policy, []byte("cn:worker orders/ report\nspiffe://example.org/cart carts/\n"), 0o600))
	p := start(t, ofShared(t), "", "--listen", "127.0.0.1:0", "--listen-cert", cert, "--listen-key", key, "--client-ca", a.CAFile, "--policy", policy)
	address := p.address()
	client := func(pairs ...tls.Certificate) *http.Client {
		return &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: a.Pool(), Certificates: pairs}}}
	}
	acquire := func(c *http.Client, session int, name string, header ...string) (int, object, error) {
		return post(c, "https://"+address+"/pawl.v1.Locks/Acquire", marshal(object{
			"session": hex32(session), "requestId": newID(), "names": []string{name}, "mode": "EXCLUSIVE", "waitMs": 5000,
		}), header...)
	}
	worker, _, _ := a.issue(t, "worker")
	cart, _, _ := a.issue(t, "worker", "spiffe://example.org/cart")
	twice, _, _ := a.issue(t, "worker", "spiffe://example.org/cart", "spiffe://example.org/other")
	user, _, _ := a.issue(t, "worker", "uid:0")
	stranger, _, _ := newAuthority(t).issue(t, "worker")

	for name, want := range map[string]int{"orders/1": 200, "report": 200, "reports": 403, "orders": 403, "carts/1": 403, "other": 403} {
		status, out, err := acquire(client(worker), 1, name)
		require.NoError(t, err)
		assert.Equal(t, want, status, "%s: %v", name, out)
	}
	status, out, err := acquire(client(cart), 2, "carts/1")
	require.NoError(t, err)
	assert.Equal(t, 200, status, out)
	status, out, err = acquire(client(cart), 1, "carts/2")
	require.NoError(t, err)
	assert.Equal(t, 403, status, "a session of another identity: %v", out)
	assert.Contains(t, out["message"], "another identity")
	for name, pair := range map[string]tls.Certificate{"two URIs": twice, "a URI like a user": user} {
		status, out, err = acquire(client(pair), 3, "carts/3")
		require.NoError(t, err)
		assert.Equal(t, 401, status, "%s: %v", name, out)
	}
	for name, c := range map[string]*http.Client{"no certificate": client(), "another authority": client(stranger)} {
		_, _, err = acquire(c, 4, "orders/1")
		assert.Error(t, err, name)
	}
	status, out, err = acquire(client(worker), 1, "orders/2", "Host", "evil.example")
	require.NoError(t, err)
	assert.Equal(t, 401, status, out)
	status, out, err = post(client(worker), "https://"+address+"/pawl.v1.Locks/List", "{}")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	for _, q := range out["queues"].([]any) {
		assert.NotEqual(t, "carts/1", q.(object)["name"], "the policy holds for List too")
	}
	status, _, err = post(client(worker), "https://"+address+"/pawl.v1.Locks/Leader", `{"name":"carts/1"}`)
	require.NoError(t, err)
	assert.Equal(t, 403, status)
	status, _, err = post(p.http, api+"Leader", `{"name":"orders/1"}`)
	require.NoError(t, err)
	assert.Equal(t, 403, status, "with a policy the Unix socket has what that says")
}

// Each of its files is replaced while it runs; what is read when, and what cannot be used, is judged in
// internal/tlsfiles.
// rule: C3
func TestTheFilesOfListenAreReadForEachConnection(t *testing.T) {
	t.Parallel()
	a, next := newAuthority(t), newAuthority(t)
	_, cert, key := a.issue(t, "pawld")
	ca := a.CAFile
	policy := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(policy, []byte("cn:worker orders/\n"), 0o600))
	p := start(t, ofShared(t), "", "--listen", "127.0.0.1:0", "--listen-cert", cert, "--listen-key", key, "--client-ca", ca, "--policy", policy)
	address := p.address()
	list := func(server, client authority, host string) error {
		pair, _, _ := client.issue(t, "worker")
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: server.Pool(), Certificates: []tls.Certificate{pair}}}}
		status, out, err := post(c, "https://"+address+"/pawl.v1.Locks/List", "{}", "Host", host)
		if err == nil && status != 200 {
			err = fmt.Errorf("%d: %v", status, out)
		}
		return err
	}
	replace := func(path, from string) {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
	require.NoError(t, list(a, a, "127.0.0.1"))
	assert.ErrorContains(t, list(a, a, "new.example"), "not served here")

	_, newCert, newKey := next.issueAs(t, "new.example", func(c *x509.Certificate) { c.DNSNames = []string{"new.example"} })
	replace(cert, newCert)
	assert.NoError(t, list(a, a, "127.0.0.1"), "half of a pair changes nothing")
	replace(key, newKey)
	assert.NoError(t, list(next, a, "new.example"), "the name of the new certificate")
	assert.Error(t, list(next, next, "new.example"))
	replace(ca, next.CAFile)
	assert.NoError(t, list(next, next, "new.example"))
	assert.Error(t, list(next, a, "new.example"))
	p.awaitSaid("--listen-cert and --listen-key: tls: private key does not match")
}

// A call that is parked when its caller's certificate ends is cut off, over either HTTP.
func TestAConnectionEndsWithItsCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	_, cert, key := a.issue(t, "pawld")
	policy := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(policy, []byte("cn:worker n\n"), 0o600))
	p := start(t, ofShared(t), "", "--listen", "127.0.0.1:0", "--listen-cert", cert, "--listen-key", key, "--client-ca", a.CAFile, "--policy", policy)
	url := "https://" + p.address() + "/pawl.v1.Locks/Leader"
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := time.Now().Add(3 * time.Second).Truncate(time.Second) // as certificates have it
			pair, _, _ := a.issueAs(t, "worker", func(c *x509.Certificate) { c.NotAfter = end })
			client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: http2, TLSClientConfig: &tls.Config{RootCAs: a.Pool(), Certificates: []tls.Certificate{pair}}}}
			status, _, err := post(client, url, `{"name":"n","afterRevision":"1","waitMs":30000}`)
			if err == nil { // it was read after the end, and otherwise it is parked for longer than that
				assert.Equal(t, http.StatusUnauthorized, status)
			}
			assert.False(t, time.Now().Before(end))
		})
	}
}

func TestATokenIsForLoopbackAndHasNoNamesWithoutAPolicy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token, policy := filepath.Join(dir, "token"), filepath.Join(dir, "policy")
	require.NoError(t, os.WriteFile(token, []byte("0123456789abcdef0123\n"), 0o600))
	require.NoError(t, os.WriteFile(policy, []byte("token:local n\n"), 0o600))
	p := start(t, ofShared(t), "", "--listen", "127.0.0.1:0", "--token-file", token, "--policy", policy)
	url := "http://" + p.address() + "/pawl.v1.Locks/Leader"
	for name, c := range map[string]struct {
		header []string
		want   int
	}{
		"the token":        {[]string{"Authorization", "Bearer 0123456789abcdef0123"}, 200},
		"none":             {nil, 401},
		"another":          {[]string{"Authorization", "Bearer 0123456789abcdef0124"}, 401},
		"its beginning":    {[]string{"Authorization", "Bearer 0123456789abcdef"}, 401},
		"an empty one":     {[]string{"Authorization", "Bearer "}, 401},
		"a page's":         {[]string{"Authorization", "Bearer 0123456789abcdef0123", "Origin", "http://localhost"}, 401},
		"a rebound page's": {[]string{"Authorization", "Bearer 0123456789abcdef0123", "Host", "evil.example"}, 401},
	} {
		status, out, err := post(http.DefaultClient, url, `{"name":"n"}`, c.header...)
		require.NoError(t, err)
		assert.Equal(t, c.want, status, "%s: %v", name, out)
	}
	assert.NotContains(t, p.said(), "0123456789abcdef")
}

// Another user, and one that cannot be distinguished from others.
func TestAnotherUserHasItsOwnSessions(t *testing.T) {
	if os.Getuid() != 0 {
		skip(t, "only root can be another user")
	}
	t.Parallel()
	p := start(t, ofShared(t), "")
	p.hold(1, 1, "n")
	curl := func(uid uint32, method, body string) string { return p.curlAs(uid, uid, method, body) }
	renew := marshal(object{"session": hex32(1)})
	assert.Contains(t, curl(12345, "Renew", renew), "curl: (7)", "the socket is its owner's and its group's")
	require.NoError(t, os.Chmod(p.socket, 0o666))
	assert.Contains(t, curl(12345, "Renew", renew), "another identity")
	assert.Contains(t, curl(12345, "Release", renew), "another identity")
	assert.Contains(t, curl(12345, "List", "{}"), `uid:0`)
	assert.Contains(t, curl(65534, "Renew", renew), "user of another namespace")
	require.Len(t, p.locks(1), 1)
	assert.Equal(t, "HELD", p.locks(1)[0]["state"])
}

// curlAs calls as another user, and returns what curl prints.
func (p *pawld) curlAs(uid, gid uint32, method, body string) string {
	cmd := exec.Command("curl", "-sS", "-m", "10", "--unix-socket", p.socket, "-H", "content-type:application/json", "--data-binary", "@-", api+method)
	cmd.Stdin = strings.NewReader(body)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// The socket is for the group that is named, and for no other.
func TestTheSocketIsItsGroups(t *testing.T) {
	t.Parallel()
	group := otherGroup(t)
	p := start(t, ofShared(t), "", "--socket-group", group.Name)
	p.hold(1, 1, "n") // it serves, and not only listens
	info, err := os.Stat(p.socket)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o660), info.Mode().Perm())
	assert.Equal(t, group.Gid, fmt.Sprint(info.Sys().(*syscall.Stat_t).Gid))
	if os.Getuid() == 0 {
		gid, err := strconv.ParseUint(group.Gid, 10, 32)
		require.NoError(t, err)
		assert.Contains(t, p.curlAs(12345, uint32(gid), "Leader", `{"name":"n"}`), `"owner":"uid:0"`)
		assert.Contains(t, p.curlAs(12345, 12345, "Leader", `{"name":"n"}`), "curl: (7)")
	}
}

// otherGroup is a group that this process may give a file to, other than the process's.
func otherGroup(t *testing.T) *user.Group {
	t.Helper()
	all, err := os.Getgroups()
	require.NoError(t, err)
	if os.Getuid() == 0 {
		all = append(all, 1, 2, 3) // of the system's own
	}
	for _, gid := range all {
		if group, err := user.LookupGroupId(strconv.Itoa(gid)); err == nil && gid != os.Getegid() {
			return group
		}
	}
	skip(t, "this user is in one group alone")
	return nil
}

// No secret is logged.
func TestSessionsAreNotLogged(t *testing.T) {
	t.Parallel()
	p := start(t, ofShared(t), "", "--verbose")
	p.acquire(object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE", "ttlMs": 3000, "waitMs": 5000})
	p.call("Release", object{"session": hex32(1), "requestIds": []string{hex32(1)}})
	p.raw("Acquire", `{"session":"`+hex32(1)+`","requestId":"`+hex32(2)+`","names":["n"],"mode":"EXCLUSIVE","nope":1}`)
	p.raw("Acquire", `{"session":"`+hex32(1)+`","requestId":"`+hex32(2)+`"}`)
	p.stop(syscall.SIGTERM)
	assert.NotContains(t, p.said(), hex32(1))
}

// A connection beyond the limit is closed at once, and pawld says why; one that ends makes room.
func TestAConnectionBeyondTheLimitIsClosed(t *testing.T) {
	t.Parallel()
	p := start(t, ofShared(t), "", sixConnections...) // three for one user
	dial := func() net.Conn { return dialed(t, "unix", p.socket, nil) }
	open := []net.Conn{kept(t, dial, leaderRequest), kept(t, dial, leaderRequest), kept(t, dial, leaderRequest)}
	refused := func() bool { return !answered(dial(), leaderRequest) }
	eventually(t, refused, 10*time.Second, time.Millisecond)
	p.awaitSaid("a connection is refused")
	p.awaitSaid(fmt.Sprintf("uid:%d has 3 connections, and may have no more", os.Getuid()))
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	eventually(t, func() bool { return !refused() })
	p.hold(1, 1, "n")
}

// sixConnections are the flags for six connections of each listener.
var sixConnections = []string{"--max-connections", "6", "--max-calls", "2", "--max-sessions", "1"}

func dialed(t *testing.T, network, address string, from net.Addr) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: from}).Dial(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// leaderRequest is answered, and leaves its connection open.
const leaderRequest = "POST /pawl.v1.Locks/Leader HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 0123456789abcdef0123\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// kept is a connection that pawld accepts: one of another's, which has ended, may still count.
func kept(t *testing.T, dial func() net.Conn, request string) (c net.Conn) {
	t.Helper()
	eventually(t, func() bool { c = dial(); return answered(c, request) })
	return c
}

// answered reports whether pawld answers a request on a connection, which it closes otherwise.
func answered(c net.Conn, request string) bool {
	_, err := c.Write([]byte(request))
	if err == nil {
		var resp *http.Response
		if resp, err = http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
		}
	}
	if err != nil {
		_ = c.Close()
	}
	return err == nil
}

// The connections of one listener keep nobody out of another, and those to --health are bounded, too.
func TestEachListenerHasItsOwnConnections(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("0123456789abcdef0123\n"), 0o600))
	p := start(t, ofShared(t), "", append(sixConnections, "--listen", "127.0.0.1:0", "--token-file", token, "--health", "127.0.0.1:0")...)
	from := func(host byte) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)} }
	prometheus := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: from(2)}).DialContext}}
	eventually(t, func() bool { status, _ := p.healthBy(prometheus, "/readyz"); return status == http.StatusOK })
	health := healthy.FindStringSubmatch(p.said())[1]
	for _, l := range []struct {
		network, address string
		from             net.Addr
		each             int
		open             string // prometheus's own connection included
		request          string
	}{{"unix", p.socket, nil, 3, "3", leaderRequest}, {"tcp", p.address(), from(1), 3, "3", leaderRequest}, {"tcp", health, from(1), healthConnections / 2, "33", "GET /livez HTTP/1.1\r\nHost: pawl\r\n\r\n"}} {
		dial := func() net.Conn { return dialed(t, l.network, l.address, l.from) }
		for range l.each { // all that one user, or host, may have
			kept(t, dial, l.request)
		}
		if l.address == health { // where a newcomer takes the place of the oldest
			assert.True(t, answered(dial(), l.request))
			p.awaitSaid("may have no more")
			continue
		}
		assert.False(t, answered(dial(), l.request), l.address)
		eventually(t, func() bool { // what was closed may take a moment
			return p.metricsBy(prometheus)[fmt.Sprintf("pawld_connections{listener=%q}", l.address)] == l.open
		}, l.address)
	}
	assert.True(t, answered(dialed(t, "tcp", p.address(), from(2)), leaderRequest), "another host")

	got := p.metricsBy(prometheus)
	for _, l := range []string{p.socket, p.address()} {
		assert.NotContains(t, []string{"", "0"}, got[fmt.Sprintf("pawld_connections_refused_total{listener=%q}", l)], l)
	}
}
