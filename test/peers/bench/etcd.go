//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/loopback"
)

// etcd is a server in a process of its own, with the defaults of etcd: it waits
// for its disk.
type etcd struct {
	addr   string
	dir    string
	cmd    *exec.Cmd
	stdin  io.Closer
	conn   *grpc.ClientConn // the parent's own
	kv     pb.KVClient
	leases pb.LeaseClient

	compacted int64 // up to which revision
}

// startEtcd starts a server whose data lie in a new folder under dir.
func startEtcd(ctx context.Context, dir string) (e *etcd, err error) {
	e = &etcd{}
	defer func() {
		if err != nil {
			e.stop()
		}
	}()
	if e.dir, err = os.MkdirTemp(dir, "pawl-bench-etcd-"); err != nil {
		return e, err
	}
	client, err := loopback.Reserve()
	if err != nil {
		return e, err
	}
	defer client.Release()
	peer, err := loopback.Reserve()
	if err != nil {
		return e, err
	}
	defer peer.Release()
	e.addr = client.String()
	e.cmd = again(roleServer, e.dir, e.addr, peer.String())
	e.cmd.Stdout, e.cmd.Stderr = os.Stderr, os.Stderr
	if e.stdin, err = e.cmd.StdinPipe(); err != nil {
		return e, err
	}
	if err := e.cmd.Start(); err != nil {
		return e, err
	}
	if e.conn, err = connect(e.addr); err != nil {
		return e, err
	}
	e.kv, e.leases = pb.NewKVClient(e.conn), pb.NewLeaseClient(e.conn)
	_, err = e.kv.Range(ctx, &pb.RangeRequest{Key: []byte("there?")}, grpc.WaitForReady(true))
	return e, err
}

// stop ends the server and removes its data.
func (e *etcd) stop() {
	if e.conn != nil {
		_ = e.conn.Close()
	}
	if e.cmd != nil && e.cmd.Process != nil {
		_ = e.stdin.Close()
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait()
	}
	if e.dir != "" {
		_ = os.RemoveAll(e.dir)
	}
}

// clear ends all leases, with their keys, and forgets the past, so that each
// turn finds the same server.
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
	r, err := e.kv.Range(ctx, &pb.RangeRequest{Key: []byte("\x00"), RangeEnd: []byte("\x00"), CountOnly: true})
	if err == nil && r.Count > 0 {
		err = fmt.Errorf("%d keys are left", r.Count)
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

func connect(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// again is this program started another time, in another role. It ends with the
// parent.
func again(role string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// serve is the server's process: args are its folder, and where it listens for
// clients and peers. It ends when its standard input does.
func serve(args []string) error {
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.Metrics, cfg.EnablePprof = args[0], "error", "extensive", true
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: args[1]}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: args[2]}}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = cfg.ListenClientUrls, cfg.ListenPeerUrls
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
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

// syncTime is what one write of 2 KiB takes that waits for its disk.
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
