// Package devserver runs an etcd server in the process that wants one, on loopback. It is for "pawl
// dev", the demonstration, and commands with --embed.
package devserver

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/testkit/loopback"
	"github.com/pawl-locks/pawl/test/etcdtest/fatallog"
)

// Options say how an embedded server is started.
type Options struct {
	Port  int    // of loopback; a free one if 0
	Dir   string // its data; if "", a temporary one, which Close removes
	Quick bool   // its heartbeats and elections are ten times as fast as etcd's defaults
}

// Server is an etcd server in this process, on loopback.
type Server struct {
	Endpoint string
	Dir      string
	Etcd     *embed.Etcd
	serving  *grpc.Server
	clean    []func() error // run by Close, the last one first
}

// embedTimeout bounds how long the server may take until it serves.
const embedTimeout = 20 * time.Second

// Start returns when the server serves.
func Start(o Options) (_ *Server, err error) {
	e := &Server{Dir: o.Dir}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start an etcd server: %w", err), e.Close())
		}
	}()
	cfg, err := e.configure(o)
	if err != nil {
		return nil, err
	}
	registered := make(chan *grpc.Server, 1)
	cfg.ServiceRegister = func(s *grpc.Server) { registered <- s }
	if e.Etcd, err = embed.StartEtcd(cfg); err != nil {
		return nil, err
	}
	timeout := time.NewTimer(embedTimeout)
	defer timeout.Stop()
	select {
	case e.serving = <-registered: // only after it has a leader
		return e, nil
	case err = <-e.Etcd.Err():
	case <-timeout.C:
		err = fmt.Errorf("not ready after %v", embedTimeout)
	}
	return nil, err
}

func (e *Server) configure(o Options) (*embed.Config, error) {
	cfg := embed.NewConfig()
	if e.Dir == "" {
		dir, err := os.MkdirTemp("", "pawl-etcd-")
		if err != nil {
			return nil, err
		}
		e.Dir = dir
		e.clean = append(e.clean, func() error { return os.RemoveAll(dir) })
		cfg.UnsafeNoFsync = true // what is thrown away need not reach the disk
	}
	cfg.Dir = e.Dir
	client, err := e.address(o.Port)
	if err != nil {
		return nil, err
	}
	peer, err := e.address(0)
	if err != nil {
		return nil, err
	}
	e.Endpoint = client.Host
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.SocketOpts.ReusePort = loopback.Shared
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(fatallog.New())
	if o.Quick {
		cfg.TickMs, cfg.ElectionMs = 10, 100
	}
	return cfg, nil
}

// address is port of loopback, or a free one that remains reserved until Close.
func (e *Server) address(port int) (url.URL, error) {
	if port == 0 {
		p, err := loopback.Reserve()
		if err != nil {
			return url.URL{}, err
		}
		e.clean = append(e.clean, func() error { p.Release(); return nil })
		return url.URL{Scheme: "http", Host: p.String()}, nil
	}
	// A listener that shares its port would not notice another server there.
	host := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	l, err := net.Listen("tcp", host)
	if err != nil {
		return url.URL{}, err
	}
	return url.URL{Scheme: "http", Host: host}, l.Close()
}

// Close stops the server, waits until it is gone, and removes its data where
// they are temporary.
func (e *Server) Close() error {
	if e == nil {
		return nil
	}
	if e.serving != nil {
		e.serving.Stop() // otherwise Close would wait for open streams to end by themselves
	}
	if e.Etcd != nil {
		e.Etcd.Close()
	}
	var errs []error
	for i := len(e.clean) - 1; i >= 0; i-- {
		errs = append(errs, e.clean[i]())
	}
	e.clean = nil
	return errors.Join(errs...)
}
