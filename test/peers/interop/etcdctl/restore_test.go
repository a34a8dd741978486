package etcdctl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/loopback"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// etcd is a server of one member, with data that somebody may have restored.
type etcd struct {
	dir          string
	client, peer *loopback.Port
}

func reserve(t *testing.T, dir string) etcd {
	s := etcd{dir: dir}
	for _, p := range []**loopback.Port{&s.client, &s.peer} {
		port, err := loopback.Reserve()
		require.NoError(t, err)
		t.Cleanup(port.Release)
		*p = port
	}
	return s
}

func (s etcd) peerURL() string { return "http://" + s.peer.String() }

// start returns what ends it.
func (s etcd) start(t *testing.T) (stop func()) {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.LogLevel, cfg.UnsafeNoFsync = "m1", s.dir, "panic", true
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: s.client.String()}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: s.peer.String()}}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = cfg.ListenClientUrls, cfg.ListenPeerUrls
	cfg.InitialCluster = "m1=" + s.peerURL()
	cfg.SocketOpts.ReusePort = loopback.Shared
	serving := make(chan *grpc.Server, 1)
	cfg.ServiceRegister = func(g *grpc.Server) { serving <- g }
	e, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	g := <-serving
	return func() {
		g.Stop() // or Close would wait for its streams
		e.Close()
	}
}

// restoring are the commands of the page on operations under "Restoring a backup".
func restoring(t *testing.T) []string {
	text, err := os.ReadFile("../../../../docs/how-to/operations.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Restoring a backup\n")
	require.True(t, found)
	block := console.FindStringSubmatch(section)
	require.NotNil(t, block)
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
		lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), "$ "))
	}
	return lines
}

// follow does what the page says, with the longest TTL in use for the five minutes, and other paths and addresses.
func (s etcd) follow(t *testing.T, backup string, longest time.Duration) {
	did := map[string]bool{}
	for _, line := range restoring(t) {
		words := strings.Fields(line)
		did[words[0]] = true
		switch words[0] {
		case "sleep":
			seconds, err := strconv.Atoi(words[1])
			require.NoError(t, err)
			require.Equal(t, 300, seconds, "the page's five minutes")
			time.Sleep(longest)
		case "etcdutl":
			line = regexp.MustCompile(`--initial-cluster \S+`).ReplaceAllString(line, "--initial-cluster m1="+s.peerURL())
			line = regexp.MustCompile(`--initial-advertise-peer-urls \S+`).ReplaceAllString(line, "--initial-advertise-peer-urls "+s.peerURL())
			line = strings.NewReplacer("/var/lib/etcd", s.dir, "backup.db", backup).Replace(line)
			cmd := exec.Command(os.Args[0], strings.Fields(line)[1:]...)
			cmd.Env = append(os.Environ(), utlVariable+"=1")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		default:
			require.Fail(t, "the page has another command", line)
		}
	}
	require.Equal(t, map[string]bool{"sleep": true, "etcdutl": true}, did)
}

// wasRestored reports whether its status says so, which the doctor repeats.
func wasRestored(t *testing.T, s etcd) bool {
	conn, err := grpc.NewClient("passthrough:///"+s.client.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	status, err := pb.NewMaintenanceClient(conn).Status(t.Context(), &pb.StatusRequest{})
	require.NoError(t, err)
	return cluster.Restored(status)
}

// A holder has acquired after the backup. Whoever follows the page lets nobody in beside it, though the new client asks
// as soon as the restored cluster serves.
func TestARestoreAsThePageSaysLetsNobodyInBesideAHolder(t *testing.T) {
	const longest = lease.MinTTL
	for _, how := range []string{"at the same address", "at a new address", "the holder hears nothing"} {
		for try := range 3 {
			t.Run(fmt.Sprint(how, ", ", try), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				old := reserve(t, filepath.Join(dir, "old"))
				stop := old.start(t)
				var at atomic.Value // where the holder's name leads to, or ""
				at.Store(old.client.String())
				dial := func(ctx context.Context, _ string) (net.Conn, error) {
					if at.Load() == "" {
						return nil, errors.New("nothing gets through")
					}
					return new(net.Dialer).DialContext(ctx, "tcp", at.Load().(string))
				}
				client := func(options ...grpc.DialOption) *pawl.Client {
					c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: []string{at.Load().(string)}, Session: lease.Options{TTL: longest}, DialOptions: options})
					require.NoError(t, err)
					t.Cleanup(func() { _ = c.Close() })
					return c
				}
				acquire := func(c *pawl.Client, name string) *lock.Held {
					h, err := lock.New(c, name, lock.Options{}).Acquire(t.Context())
					require.NoError(t, err)
					return h
				}
				holder := client(grpc.WithContextDialer(dial))
				before := acquire(holder, "before")
				backup := filepath.Join(dir, "backup")
				save := exec.Command(os.Args[0], "snapshot", "save", backup)
				save.Env = append(os.Environ(), ctlVariable+"=1", "ETCDCTL_ENDPOINTS="+old.client.String())
				out, err := save.CombinedOutput()
				require.NoError(t, err, "%s", out)
				after := acquire(holder, "after")

				assert.False(t, wasRestored(t, old))
				stop()
				restored := etcd{filepath.Join(dir, "restored"), old.client, old.peer}
				switch how {
				case "at a new address":
					restored = reserve(t, restored.dir)
				case "the holder hears nothing":
					at.Store("")
				}
				restored.follow(t, backup, longest)
				assert.Error(t, after.Err(), "before the restored cluster serves")
				assert.Error(t, before.Err())
				stop = restored.start(t)
				t.Cleanup(stop)
				assert.True(t, wasRestored(t, restored))
				if how != "the holder hears nothing" {
					at.Store(restored.client.String())
				}
				fresh, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: []string{restored.client.String()}, Session: lease.Options{TTL: longest}})
				require.NoError(t, err)
				t.Cleanup(func() { _ = fresh.Close() })
				for _, h := range []*lock.Held{after, before} {
					got := acquire(fresh, h.Name())
					assert.Error(t, h.Err())
					assert.Greater(t, got.Token(), h.Token())
				}
			})
		}
	}
}
