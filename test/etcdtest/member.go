package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/testkit/loopback"
)

// Member is one server of a cluster, in a separate process.
type Member struct {
	cluster *Cluster
	name    string
	dir     string
	client  *loopback.Port // where it listens, behind proxy
	peer    *loopback.Port // where it listens, behind gate
	proxy   *faultproxy.Proxy
	gate    *peerGate
	give    sync.Once
	conn    *grpc.ClientConn // past the proxy, for this package
	initial string           // initial-cluster
	state   string           // initial-cluster-state

	mu     sync.Mutex
	cmd    *exec.Cmd // nil while it does not run
	stdin  io.Closer
	exited chan struct{}
	paused bool
	id     uint64
	disk   disk
}

// newMember adds a member that does not run yet.
func (c *Cluster) newMember() (*Member, error) {
	c.mu.Lock()
	m := &Member{cluster: c, name: fmt.Sprintf("m%d", c.nth)}
	c.nth++
	c.mu.Unlock()
	m.dir = filepath.Join(c.dir, m.name)
	if err := os.MkdirAll(m.path("data"), 0o700); err != nil {
		return nil, err
	}
	var err error
	if m.client, err = loopback.Reserve(); err != nil {
		return nil, err
	}
	if m.peer, err = loopback.Reserve(); err != nil {
		m.client.Release()
		return nil, err
	}
	if m.proxy, err = faultproxy.New(m.client.String()); err != nil {
		return nil, err
	}
	if m.gate, err = c.peers.open(m); err != nil {
		m.proxy.Close()
		return nil, err
	}
	if m.conn, err = m.dial(); err != nil {
		m.proxy.Close()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = append(c.members, m)
	return m, nil
}

func (m *Member) path(name string) string { return filepath.Join(m.dir, name) }

// Name is the member's name in the cluster.
func (m *Member) Name() string { return m.name }

// ID is the member_id of its answers, or 0 before it has ever served.
func (m *Member) ID() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// Endpoint is where clients reach the member, through its proxy.
func (m *Member) Endpoint() string { return m.clientScheme() + m.proxy.Addr() }

// Addr is the host and port of Endpoint.
func (m *Member) Addr() string { return m.proxy.Addr() }

// Direct is where the member itself listens, past its proxy.
func (m *Member) Direct() string { return m.clientScheme() + m.client.String() }

func (m *Member) peerURL() string { return "http://" + m.gate.port.String() }

func (m *Member) pid() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return 0
	}
	return m.cmd.Process.Pid
}

func (m *Member) running() bool { return m.pid() != 0 }

// Conn returns a plain gRPC connection to the member, past its proxy, closed at
// the end of the test.
func (m *Member) Conn(t testing.TB) *grpc.ClientConn {
	t.Helper()
	conn, err := m.dial()
	if err != nil {
		t.Fatalf("etcdtest: connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (m *Member) dial() (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if m.cluster.certs != nil {
		tls, err := m.cluster.certs.client("root")
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(tls)
	}
	return grpc.NewClient("passthrough:///"+m.client.String(), grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(quickly))
}

// launch starts the member's process.
func (m *Member) launch() error {
	if err := m.writeConfig(); err != nil {
		return err
	}
	log, err := os.OpenFile(m.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		return errors.New("member " + m.name + " runs already")
	}
	cmd, err := m.command()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	tie(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if !m.cluster.sharesPorts() {
		m.give.Do(m.givePorts)
	}
	started, exited := make(chan error, 1), make(chan struct{})
	go m.run(cmd, started, exited) // ends with the process
	if err := <-started; err != nil {
		return fmt.Errorf("member %s: %w", m.name, err)
	}
	m.cmd, m.stdin, m.paused, m.exited = cmd, stdin, false, exited
	return nil
}

func (m *Member) command() (*exec.Cmd, error) {
	config := m.path("config.yaml")
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	binary := m.cluster.opts.Binary
	if binary == "" || m.cluster.opts.StallableDisk {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), memberEnv+"="+config)
		if m.cluster.opts.StallableDisk {
			cmd.Env = append(cmd.Env, superviseEnv+"="+binary)
		}
		return cmd, m.disk.prepare(cmd, m.cluster.opts.StallableDisk)
	}
	return exec.Command(binary, "--config-file", config), nil
}

// run keeps its thread, because the kernel takes the death of the thread that started a process for
// the parent's.
func (m *Member) run(cmd *exec.Cmd, started chan<- error, exited chan struct{}) {
	runtime.LockOSThread()
	err := m.disk.start(cmd)
	started <- err
	if err != nil {
		return
	}
	_ = cmd.Wait()
	m.mu.Lock()
	m.cmd = nil
	m.mu.Unlock()
	m.disk.end()
	close(exited)
}

// status queries the member itself.
func (m *Member) status(ctx context.Context) (*pb.StatusResponse, error) {
	ctx, err := m.cluster.authenticated(ctx, m)
	if err != nil {
		return nil, err
	}
	return pb.NewMaintenanceClient(m.conn).Status(ctx, &pb.StatusRequest{})
}

// ready waits until the member serves linearizable requests.
func (m *Member) ready(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for {
		err := m.serves(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("member %s does not serve within %v: %w; its log ends with:\n%s", m.name, timeout, err, m.logTail())
		}
		if !m.running() {
			return fmt.Errorf("member %s ended; its log ends with:\n%s", m.name, m.logTail())
		}
	}
}

func (m *Member) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ctx, err := m.cluster.authenticated(ctx, m)
	if err != nil {
		return err
	}
	r, err := pb.NewKVClient(m.conn).Range(ctx, &pb.RangeRequest{Key: []byte("\x00etcdtest")})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id = r.Header.MemberId
	return nil
}

func (m *Member) logTail() string {
	text, _ := os.ReadFile(m.path("log"))
	return string(text[max(0, len(text)-2000):])
}

// Log is what the member has written to its log. See Options.LogLevel, which is "warn" if it was
// "".
func (m *Member) Log() string {
	text, _ := os.ReadFile(m.path("log"))
	return string(text)
}

// close ends the member for good.
func (m *Member) close() {
	m.Kill()
	m.proxy.Close()
	_ = m.conn.Close()
	m.give.Do(m.givePorts)
}

// givePorts gives up the ports that the member listens on.
func (m *Member) givePorts() {
	m.client.Release()
	m.peer.Release()
}
