//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/testkit/loopback"
)

// etcd is a server, or the members of a cluster, in separate processes, with etcd's defaults, so
// they wait for their disk.
type etcd struct {
	addr    string // the first member's
	metrics string // where that shows its metrics
	cert    string // the file of the members' certificate; "" without TLS
	dir     string
	members []member
	procs   []proc
	proxies map[time.Duration]*faultproxy.Proxy // before the first member, by the round trips they make
	conn    *grpc.ClientConn                    // of this process
	kv      pb.KVClient
	leases  pb.LeaseClient

	compacted int64 // the revision that is compacted
}

// member is one of a cluster.
type member struct {
	Addr string
	Pid  int
}

type proc struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// startEtcd starts n members, one or more, with data in a new directory under dir, and with TLS if secure is
// set.
func startEtcd(ctx context.Context, dir string, n int, secure bool) (e *etcd, err error) {
	e = &etcd{proxies: map[time.Duration]*faultproxy.Proxy{}}
	defer func() {
		if err != nil {
			e.stop()
		}
	}()
	if e.dir, err = os.MkdirTemp(dir, "pawl-bench-etcd-"); err != nil {
		return e, err
	}
	if secure {
		e.cert = filepath.Join(e.dir, certFile)
		if err := certify(e.dir); err != nil {
			return e, err
		}
	}
	var ports []*loopback.Port
	var cluster []string
	for i := range 3 * n {
		p, err := loopback.Reserve()
		if err != nil {
			return e, err
		}
		defer p.Release()
		ports = append(ports, p)
		if i%3 == 1 {
			cluster = append(cluster, fmt.Sprintf("m%d=http://%s", i/3, p))
		}
	}
	for i := range n {
		if err := e.startMember(fmt.Sprintf("m%d", i), ports[3*i].String(), ports[3*i+1].String(), ports[3*i+2].String(), strings.Join(cluster, ",")); err != nil {
			return e, err
		}
	}
	e.addr = e.members[0].Addr
	e.metrics = e.addr
	var cfg *tls.Config
	if secure {
		e.metrics = ports[2].String()
		if cfg, err = trust(e.cert); err != nil {
			return e, err
		}
	}
	if e.conn, err = connectWith(cfg, e.addr); err != nil {
		return e, err
	}
	e.kv, e.leases = pb.NewKVClient(e.conn), pb.NewLeaseClient(e.conn)
	_, err = e.kv.Range(ctx, &pb.RangeRequest{Key: []byte("there?")}, grpc.WaitForReady(true))
	return e, err
}

func (e *etcd) startMember(name, client, peer, metrics, cluster string) error {
	certs := ""
	if e.cert != "" {
		certs = e.dir
	}
	cmd := again(roleServer, filepath.Join(e.dir, name), client, peer, name, cluster, metrics, certs)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr.Setpgid = true // a stopped process is woken in an orphaned process group
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	e.procs = append(e.procs, proc{cmd, stdin})
	e.members = append(e.members, member{client, cmd.Process.Pid})
	return nil
}

// url is that of the first member.
func (e *etcd) url() string {
	if e.cert != "" {
		return "https://" + e.addr
	}
	return "http://" + e.addr
}

// dial returns the address for a client whose round trips take rtt longer than on loopback.
func (e *etcd) dial(rtt time.Duration) ([]string, error) {
	if rtt > 0 {
		p := e.proxies[rtt]
		if p == nil {
			var err error
			if p, err = faultproxy.New(e.addr); err != nil {
				return nil, err
			}
			p.SetDelay(rtt/2, rtt/2)
			e.proxies[rtt] = p
		}
		return []string{p.Addr()}, nil
	}
	var all []string
	for _, m := range e.members {
		all = append(all, m.Addr)
	}
	return all, nil
}

// stop ends the server and removes its data.
func (e *etcd) stop() {
	if e.conn != nil {
		_ = e.conn.Close()
	}
	for _, p := range e.proxies {
		p.Close()
	}
	for _, p := range e.procs {
		_ = p.stdin.Close()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
	if e.dir != "" {
		_ = os.RemoveAll(e.dir)
	}
}

// clear ends all leases, with their keys, and compacts, so that each run finds the server in
// the same state.
func (e *etcd) clear(ctx context.Context) error {
	all, err := e.leases.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
	if err != nil {
		return err
	}
	err = each(32, len(all.Leases), func(i int) error {
		_, err := e.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: all.Leases[i].ID})
		if status.Code(err) == codes.NotFound {
			return nil // it has ended by itself meanwhile
		}
		return err
	})
	if err != nil {
		return err
	}
	r, err := e.kv.Range(ctx, &pb.RangeRequest{Key: []byte("\x00"), RangeEnd: []byte("\x00"), KeysOnly: true, Limit: 1})
	if err == nil && r.Count > 0 {
		err = fmt.Errorf("%d keys are left, the first of them %q", r.Count, r.Kvs[0].Key)
	}
	if err != nil {
		return err
	}
	if r.Header.Revision == e.compacted {
		return nil // nothing was written since
	}
	e.compacted = r.Header.Revision
	_, err = e.kv.Compact(ctx, &pb.CompactionRequest{Revision: r.Header.Revision, Physical: true})
	return err
}

func connect(addr string) (*grpc.ClientConn, error) { return connectWith(nil, addr) }

func connectWith(cfg *tls.Config, addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(transport(cfg)))
}

// again is the command that runs this program again, in another role. It ends with this
// process.
func again(role string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// serve is the main of a server's process. args are its directory, its addresses for clients and
// peers, its name, its cluster's members, its address for metrics if it serves clients with TLS, and the
// folder of its certificate, which is "" if it does not. It ends when its standard input does.
func serve(args []string) error {
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.Metrics, cfg.EnablePprof = args[0], "error", "extensive", true
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: args[1]}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: args[2]}}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = cfg.ListenClientUrls, cfg.ListenPeerUrls
	cfg.Name, cfg.InitialCluster = args[3], args[4]
	if args[6] != "" {
		secure(cfg, args[6], args[5])
	}
	cfg.SocketOpts.ReusePort = loopback.Shared
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	parent := make(chan struct{})
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(parent)
	}()
	select {
	case err := <-server.Err():
		return err
	case <-server.Server.StopNotify():
		return errors.New("the server stopped")
	case <-parent:
		return nil
	}
}

// filesystem names the kind of filesystem that dir is on.
func filesystem(dir string) string {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return "unknown"
	}
	for magic, name := range map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.TMPFS_MAGIC: "tmpfs", unix.XFS_SUPER_MAGIC: "xfs",
		unix.BTRFS_SUPER_MAGIC: "btrfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	} {
		if int64(s.Type) == magic {
			return name
		}
	}
	return fmt.Sprintf("of type %#x", s.Type)
}

// syncTime is how long one write of 2 KiB takes that waits for its disk.
func syncTime(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "pawl-bench-sync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	const n = 200
	block := make([]byte, 2048)
	start := time.Now()
	for range n {
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / n, nil
}
