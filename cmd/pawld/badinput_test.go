package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/launch"
)

// Each is refused with an error that names it, and leaves nothing held.
func TestEachBadRequestIsNamed(t *testing.T) {
	t.Parallel()
	p := start(t, ofShared(t), "")
	s, id := hex32(1), hex32(2)
	acquire := func(more string) string {
		return fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n"],"mode":"EXCLUSIVE"%s}`, s, id, more)
	}
	for _, c := range []struct{ method, body, code, text string }{
		{"Acquire", acquire(`,"waitMS":5`), "invalid_argument", `unknown field "waitMS"`},
		{"Acquire", acquire(`,"wait":5`), "invalid_argument", `unknown field "wait"`},
		{"Acquire", acquire(`,"mode":"SHARED"`), "invalid_argument", `duplicate field "mode"`},
		{"Acquire", "", "invalid_argument", "body"},
		{"Acquire", "{", "invalid_argument", "body"},
		{"Acquire", `[]`, "invalid_argument", "body"},
		{"Acquire", `{}`, "invalid_argument", "session has 0 characters, want 32 hexadecimal digits"},
		{"Acquire", `{"session":"` + strings.ToUpper(s) + `"}`, "invalid_argument", "lower case"},
		{"Acquire", `{"session":"` + strings.Repeat("0", 32) + `"}`, "invalid_argument", "session is not random"},
		{"Acquire", `{"session":"` + s + `"}`, "invalid_argument", "request_id has 0"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n"]}`, s, id), "invalid_argument", "mode is MODE_UNSPECIFIED, want EXCLUSIVE, SHARED, SEMAPHORE or ELECTION"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n"],"mode":"SEMAPHORE"}`, s, id), "invalid_argument", "limit is 0, want 1 to 1000"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":[%q],"mode":"SEMAPHORE","limit":1}`, s, id, strings.Repeat("x", 1024)), "invalid_argument", "for a semaphore"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n","n"],"mode":"EXCLUSIVE"}`, s, id), "invalid_argument", "names: \"n\" is given twice"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n","m"],"mode":"ELECTION"}`, s, id), "invalid_argument", "a set's is EXCLUSIVE or SHARED"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":[%s"n"],"mode":"SHARED"}`, s, id, strings.Repeat(`"n",`, 32)), "invalid_argument", "names: 33 given, want at most 32"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n","m"],"modes":["SHARED"]}`, s, id), "invalid_argument", "modes: 1 given, and 2 names"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n","m"],"modes":["SHARED",0]}`, s, id), "invalid_argument", "mode is MODE_UNSPECIFIED"},
		{"Acquire", acquire(`,"modes":["SHARED"]`), "invalid_argument", "mode and modes are given, want one"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n"],"mode":99}`, s, id), "invalid_argument", "mode is 99"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n"],"mode":"exclusive"}`, s, id), "invalid_argument", "exclusive"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"mode":"EXCLUSIVE"}`, s, id), "invalid_argument", "names: none given"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"mode":"EXCLUSIVE","names":[""]}`, s, id), "invalid_argument", "names: "},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"mode":"EXCLUSIVE","names":[%q]}`, s, id, strings.Repeat("x", 1025)), "invalid_argument", "names: "},
		{"Acquire", acquire(`,"ttlMs":2999`), "invalid_argument", "ttl_ms is 2999, want 0 or 3000 to 15000"},
		{"Acquire", acquire(`,"ttlMs":15001`), "invalid_argument", "ttl_ms is 15001"},
		{"Acquire", acquire(`,"ttlMs":-1`), "invalid_argument", "ttl_ms is -1"},
		{"Acquire", acquire(`,"ttlMs":9999999999`), "invalid_argument", "9999999999"},
		{"Acquire", acquire(`,"waitMs":-1`), "invalid_argument", "wait_ms is -1"},
		{"Acquire", acquire(`,"maxHoldMs":-1`), "invalid_argument", "max_hold_ms is -1"},
		{"Acquire", acquire(`,"limit":3`), "invalid_argument", "limit is 3"},
		{"Acquire", acquire(`,"value":"eA=="`), "invalid_argument", "value is for ELECTION alone"},
		{"Acquire", acquire(`,"owner":"` + strings.Repeat("x", 201) + `"`), "invalid_argument", "owner has 201 bytes"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n"],"mode":"ELECTION","value":"eyJwYXdsIjoibG9jayIs"}`, s, id), "invalid_argument", "as the keys of locks do"},
		{"Acquire", fmt.Sprintf(`{"session":%q,"requestId":%q,"names":["n"],"mode":"ELECTION","value":"eyJwYXdsIjoibXVsdGkiLA=="}`, s, id), "invalid_argument", "as the keys of locks do"},
		{"Proclaim", fmt.Sprintf(`{"session":%q,"requestId":%q,"value":"eyJsYXlvdXQiOiJldGNkIiw="}`, s, id), "invalid_argument", "as the keys of locks do"},
		{"Renew", `{"session":"x"}`, "invalid_argument", "session has 1 characters"},
		{"Renew", fmt.Sprintf(`{"session":%q,"settled":["x"]}`, s), "invalid_argument", "settled has 1"},
		{"Renew", fmt.Sprintf(`{"session":%q,"waitMs":-1}`, s), "invalid_argument", "wait_ms is -1"},
		{"Release", fmt.Sprintf(`{"session":%q,"requestIds":["x"]}`, s), "invalid_argument", "request_ids has 1"},
		{"Confirm", fmt.Sprintf(`{"session":%q}`, s), "invalid_argument", "request_id has 0"},
		{"Progress", fmt.Sprintf(`{"session":%q}`, s), "invalid_argument", "request_id has 0"},
		{"Progress", `{"requestId":"1"}`, "invalid_argument", "session has 0"},
		{"Acquire", acquire(`,"stallMs":-1`), "invalid_argument", "stall_ms is -1, want 0 or at least 1000"},
		{"Acquire", acquire(`,"stallMs":999`), "invalid_argument", "stall_ms is 999, want 0 or at least 1000"},
		{"Proclaim", fmt.Sprintf(`{"session":%q}`, s), "invalid_argument", "request_id has 0"},
		{"Leader", `{}`, "invalid_argument", "name: "},
		{"Leader", `{"name":"n","waitMs":30001}`, "invalid_argument", "wait_ms is 30001, want 0 to 30000"},
		{"Leader", `{"name":"n","afterRevision":-1}`, "invalid_argument", "after_revision is -1"},
		{"List", `{"name":"n","prefix":"m"}`, "invalid_argument", "want one"},
	} {
		_, out := p.raw(c.method, c.body)
		assert.Equal(t, c.code, out["code"], "%s %s: %v", c.method, c.body, out)
		assert.Contains(t, out["message"], c.text, "%s %s", c.method, c.body)
		assert.NotContains(t, out["message"], s, "a session is a secret")
	}
	status, _ := p.raw("Nothing", "{}")
	assert.Equal(t, 404, status)
	status, _ = p.raw("Acquire", acquire(""), "Content-Type", "text/plain")
	assert.Equal(t, 415, status)
	resp, err := p.http.Get(api + "Acquire")
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 405, resp.StatusCode)

	p.hold(1, 2, "n")
	for _, c := range []struct{ method, body, code, text string }{
		{"Acquire", acquire(`,"owner":"other"`), "invalid_argument", "used before, with other parameters"},
		{"Acquire", acquire(`,"ttlMs":4000`), "invalid_argument", "opened with 15000"},
		{"Renew", fmt.Sprintf(`{"session":%q,"settled":[%q]}`, s, id), "invalid_argument", "has not ended"},
		{"Proclaim", fmt.Sprintf(`{"session":%q,"requestId":%q}`, s, id), "invalid_argument", "no election"},
	} {
		_, out := p.raw(c.method, c.body)
		assert.Equal(t, c.code, out["code"], "%s %s: %v", c.method, c.body, out)
		assert.Contains(t, out["message"], c.text, "%s %s", c.method, c.body)
	}
	queues, _ := p.call("List", object{})["queues"].([]any)
	assert.Len(t, queues, 1)
}

// Hostile requests are refused, and pawld continues.
func TestHostileRequestsAreRefused(t *testing.T) {
	t.Parallel()
	p := start(t, ofShared(t), "")
	status, out := p.raw("Leader", `{"name":"n"}`, "Origin", "http://evil.example")
	assert.Equal(t, 401, status)
	assert.Contains(t, out["message"], "Origin")

	status, out = p.raw("Leader", `{"name":"`+strings.Repeat("x", 70000)+`"}`)
	assert.Equal(t, 429, status)
	assert.Equal(t, "resource_exhausted", out["code"])

	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := io.CopyN(z, zeros{}, 100<<20)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	status, _ = p.raw("Leader", bomb.String()[:MaxBodyTest], "Content-Encoding", "gzip")
	assert.GreaterOrEqual(t, status, 400)
	small := bytes.Buffer{}
	z = gzip.NewWriter(&small)
	_, err = io.CopyN(z, zeros{}, 20<<20) // 20 KiB of it
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.Less(t, small.Len(), MaxBodyTest)
	status, out = p.raw("Leader", small.String(), "Content-Encoding", "gzip")
	assert.Equal(t, 429, status, out)

	p.hold(1, 1, "n")
}

const MaxBodyTest = 64 << 10

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// The variables may be set for etcdctl; a flag is meant.
func TestEmbedIsRefusedBesideFlagsOfTheClusterAndIgnoresVariables(t *testing.T) {
	for _, name := range ofTheCluster {
		t.Setenv("ETCDCTL_"+strings.ToUpper(name), "x")
		_, err := parse([]string{"--embed", "--" + name, "x"}, io.Discard)
		assert.ErrorContains(t, err, "--embed and --"+name+" are both given")
	}
	o, err := parse([]string{"--embed"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, []string{"127.0.0.1:2379"}, o.endpoints)
	assert.Empty(t, o.user+o.password+o.cacert+o.cert+o.key)
	config := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(config, []byte("endpoints = 127.0.0.1:2\n"), 0o600))
	for _, where := range []string{"--endpoints=127.0.0.1:2", "--config=" + config} {
		_, err = parse([]string{"--embed", where}, io.Discard)
		assert.ErrorContains(t, err, "--embed and --endpoints are both given", where)
	}
	_, err = parse([]string{"--embed=false", "--config", config}, io.Discard)
	require.NoError(t, err)
}

// A script's variable that is not set would otherwise lead to another cluster, or take a policy away.
func TestAnEmptyFlagVariableOrLineIsRefused(t *testing.T) {
	for _, name := range []string{"endpoints", "user", "password", "cacert", "cert", "key", "namespace", "state-dir", "policy", "listen", "token-file", "health", "socket-group"} {
		_, err := parse([]string{"--" + name, ""}, io.Discard)
		assert.ErrorContains(t, err, "--"+name+" is given, and empty", name)
		config := filepath.Join(t.TempDir(), "config")
		require.NoError(t, os.WriteFile(config, []byte(name+" =\n"), 0o600))
		_, err = parse([]string{"--config", config}, io.Discard)
		assert.ErrorContains(t, err, "--"+name+" is given, and empty", "a line")
	}
	for _, variable := range []string{"ETCDCTL_ENDPOINTS", "ETCDCTL_USER", "ETCDCTL_CACERT", "PAWL_NAMESPACE"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "")
			_, err := parse(nil, io.Discard)
			require.ErrorContains(t, err, variable+" is set, and empty")
		})
	}
	_, err := parse([]string{"--socket", "", "--listen", "127.0.0.1:1", "--listen-cert", "a", "--listen-key", "b", "--client-ca", "c"}, io.Discard)
	assert.NoError(t, err, "no socket")
	_, err = parse([]string{"--endpoints", "http://a:1/, b:2,"}, io.Discard)
	assert.NoError(t, err, "a list that etcd's client takes")
}

func TestWhatCannotBeStartedSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	open := file("open", "0123456789abcdef", 0o644)
	short := file("short", "x", 0o600)
	policy, many := file("policy", "uid:1 a*\n", 0o600), file("many", "uid:1 a locks=7 sessions=8\n", 0o600)
	config := file("config", "max-ttl = 10s\nmax_ttl = 1\nmax-locks = many\nmax-ttl = 9s\nx\n", 0o600)
	plain := file("plain", "", 0o600)
	socket := launch.Socket(t)
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"x"}, `"x": want flags alone`},
		{[]string{"--nothing"}, "unknown flag: --nothing\npawld: see pawld --help\n"},
		{[]string{"--max-ttl", "2s"}, "--max-ttl is 2s, want 3s to 2m30s"},
		{[]string{"--max-ttl", "120s", "--lock-delay", "24h"}, "--lock-delay is 24h0m0s: lease: Options.LockDelay is 24h0m0s, want 0 to 19h56m40s with a TTL of 4m0s"},
		{[]string{"--lock-delay", "-1s"}, "--lock-delay is -1s: "},
		{[]string{"--sync-every", "-1s"}, "--sync-every is -1s, want 0 or more"},
		{[]string{"--token-floor", "-1"}, "--token-floor is -1, want a token"},
		{[]string{"--max-sessions", "0"}, "--max-sessions is 0"},
		{[]string{"--max-connections", "0"}, "--max-connections is 0"},
		{[]string{"--max-calls", "0"}, "--max-calls is 0"},
		{[]string{"--max-connections", "100", "--max-calls", "61", "--max-sessions", "10"}, "--max-connections is 100, want 101 or more, which is --max-calls plus four times --max-sessions"},
		{[]string{"--policy", many, "--max-locks", "6"}, `policy: identity "uid:1" has locks=7, more than --max-locks, 6`},
		{[]string{"--policy", many, "--max-sessions", "7"}, `policy: identity "uid:1" has sessions=8, more than --max-sessions, 7`},
		{[]string{"--listen", "127.0.0.1:0"}, "--listen wants --listen-cert"},
		{[]string{"--listen", "0.0.0.0:0", "--token-file", open}, "not on loopback"},
		{[]string{"--listen", "127.0.0.1:0", "--token-file", open}, "can be read by others (mode -rw-r--r--)"},
		{[]string{"--listen", "127.0.0.1:0", "--token-file", short}, "token of 1 bytes, want 16"},
		{[]string{"--token-file", open}, "are for --listen"},
		{[]string{"--socket", "@abstract"}, "abstract socket"},
		{[]string{"--socket", plain}, "is there, and is no socket"},
		{[]string{"--socket", ""}, "nothing to serve"},
		{[]string{"--socket", socket, "--socket-group", "no-such-group"}, "--socket-group: "},
		{[]string{"--policy", policy}, "policy:1: \"a*\": there are no patterns"},
		{[]string{"--policy", "/no/such"}, "open /no/such"},
		{[]string{"--config", config}, "config:2: there is no \"max_ttl\" to be set here"},
		{[]string{"--config", config}, "config:3: max-locks: "},
		{[]string{"--config", config}, "config:4: \"max-ttl\" stands on a line before"},
		{[]string{"--config", config}, "config:5: want FLAG = VALUE"},
		{[]string{"--cert", "x"}, "--cert and --key belong together"},
		{[]string{"--user", "x"}, `--user: no password for "x"`},
		{[]string{"--embed"}, "--embed and --endpoints are both given"},
	} {
		p := begin(t, append([]string{"--endpoints", "127.0.0.1:1"}, c.args...)...)
		assert.NotEqual(t, 0, p.wait(), c.args)
		assert.Contains(t, p.said(), c.text, c.args)
		assert.NotContains(t, p.said(), "goroutine")
	}
}

func TestNothingIsAcquiredWithATokenBelowTheFloor(t *testing.T) {
	t.Parallel()
	p := start(t, ofShared(t), "", "--token-floor", "999999999")
	_, out := p.raw("Acquire", marshal(object{"session": hex32(1), "requestId": hex32(1), "names": []string{"n"}, "mode": "EXCLUSIVE"}))
	assert.Equal(t, "failed_precondition", out["code"], out)
}

func TestHelpGoesToStdout(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	assert.Zero(t, run([]string{"--help"}, &out, &errs, nil))
	assert.Contains(t, out.String(), "--token-floor")
	assert.Empty(t, errs.String())
}

func TestASocketOrAStateDirectoryInUseIsRefused(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	state := filepath.Join(t.TempDir(), "state")
	p := start(t, etcd, "", "--state-dir", state)
	other := begin(t, "--socket", p.socket)
	assert.Equal(t, 1, other.wait())
	assert.Contains(t, other.said(), "in use: another process serves it")
	other = begin(t, "--socket", launch.Socket(t), "--state-dir", state)
	assert.Equal(t, 1, other.wait())
	assert.Contains(t, other.said(), "is in use by another pawld")
	p.hold(1, 1, "n")

	p.stop(syscall.SIGKILL) // its socket stays, and nobody answers there
	require.NoError(t, os.Chmod(state, 0o777))
	other = begin(t, "--socket", p.socket, "--state-dir", state)
	other.wait()
	assert.Contains(t, other.said(), "can be written by others")
	require.NoError(t, os.Chmod(state, 0o700))
	next := start(t, etcd, p.socket, "--state-dir", state)
	assert.Empty(t, next.locks(1), "a killed one leaves nothing to be held")
}

// A socket that this user may not connect to is another user's, who may serve it.
func TestASocketOfAnotherUserIsNotTakenOver(t *testing.T) {
	t.Parallel()
	path := launch.Socket(t)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, os.Chmod(path, 0))
	cmd := exec.Command(os.Args[0], "--endpoints", "127.0.0.1:1", "--socket", path)
	if os.Getuid() == 0 { // who may connect to every socket
		dir := filepath.Dir(path)
		require.NoError(t, os.Chmod(dir, 0o777))
		cmd.Path = filepath.Join(dir, "pawld") // where another user may run it
		require.NoError(t, os.Link(os.Args[0], cmd.Path))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	}
	p := beginCmd(t, cmd)
	assert.Equal(t, 1, p.wait())
	assert.Contains(t, p.said(), "is there, and may be in use: ")
	assert.Contains(t, p.said(), "permission denied")
	require.NoError(t, os.Chmod(path, 0o600))
	c, err := net.Dial("unix", path)
	require.NoError(t, err, "it is served as before")
	require.NoError(t, c.Close())
}
