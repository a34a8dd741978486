package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/peer"
	"github.com/pawl-locks/pawl/internal/tlsfiles"
)

// A listener is an address for clients, and how it identifies them.
type listener struct {
	net.Listener
	peers *peer.Listener
	tls   *tls.Config
	limit *peer.Limit // on its connections
}

// limited bounds the connections of each listener separately, so that those of one keep nobody out
// of another.
func limited(all []listener, most int, refused func(at net.Addr, err error)) {
	for i, l := range all {
		all[i].limit = peer.NewLimit("connections", most)
		all[i].Listener = all[i].limit.Listen(l.Listener, func(err error) { refused(l.Addr(), err) })
	}
}

// listeners opens all that the options name.
func (o options) listeners(log *slog.Logger) (all []listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
		}
	}()
	activated, err := inherited()
	if err != nil {
		return nil, err
	}
	for _, l := range activated {
		if _, ok := l.(*net.UnixListener); !ok {
			return nil, fmt.Errorf("the socket %v that was passed in is no Unix socket", l.Addr())
		}
		all = append(all, listener{Listener: l, peers: &peer.Listener{Kind: peer.Unix}})
	}
	if len(activated) == 0 && o.socket != "" {
		l, err := listenUnix(o.socket, o.group)
		if err != nil {
			return all, err
		}
		all = append(all, listener{Listener: l, peers: &peer.Listener{Kind: peer.Unix}})
	}
	if o.listen != "" {
		l, err := o.listenTCP(log)
		if err != nil {
			return all, err
		}
		all = append(all, l)
	}
	if len(all) == 0 {
		return nil, errors.New("nothing to serve: want --socket or --listen")
	}
	return all, nil
}

// inherited are the sockets that systemd passes, which are LISTEN_FDS of them, starting at
// descriptor 3.
func inherited() (all []net.Listener, err error) {
	pid, n := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	if pid != strconv.Itoa(os.Getpid()) || n == "" {
		return nil, nil
	}
	count, err := strconv.Atoi(n)
	if err != nil || count < 0 || count > 16 {
		return nil, fmt.Errorf("LISTEN_FDS is %q, want a small number", n)
	}
	for fd := 3; fd < 3+count; fd++ {
		f := os.NewFile(uintptr(fd), "socket "+strconv.Itoa(fd))
		l, err := net.FileListener(f)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("socket %d that was passed in: %w", fd, err)
		}
		if u, ok := l.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false) // systemd owns it
		}
		all = append(all, l)
	}
	return all, nil
}

// mostPath is how many bytes the path of a Unix socket may have. Its address has one more, for the end.
const mostPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// listenUnix makes a socket that at no moment anyone but its owner and group can use.
func listenUnix(path, group string) (net.Listener, error) {
	if strings.HasPrefix(path, "@") || path[0] == 0 {
		return nil, fmt.Errorf("--socket %q is an abstract socket, which everybody may use: want a path", path)
	}
	if len(path) > mostPath {
		return nil, fmt.Errorf("--socket %s has %d bytes, and the path of a Unix socket has at most %d: want a shorter one", path, len(path), mostPath)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
	}
	if err == nil || errors.Is(err, syscall.EAGAIN) { // it may have more to accept than it keeps up with
		return nil, fmt.Errorf("--socket %s is in use: another process serves it", path)
	}
	info, missing := os.Lstat(path)
	switch {
	case missing != nil:
	case info.Mode()&os.ModeSocket == 0:
		return nil, fmt.Errorf("--socket %s is there, and is no socket", path)
	case !errors.Is(err, syscall.ECONNREFUSED): // another user's process may listen there
		return nil, fmt.Errorf("--socket %s is there, and may be in use: %w", path, err)
	default:
		_ = os.Remove(path) // no process listens there
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("--socket: %w", err)
	}
	old := syscall.Umask(0o117)
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("--socket: %w", err)
	}
	if group != "" {
		if err := giveTo(path, group); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	return l, nil
}

func giveTo(path, group string) error {
	g, err := user.LookupGroup(group)
	if err != nil {
		return fmt.Errorf("--socket-group: %w", err)
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return fmt.Errorf("--socket-group: %w", err)
	}
	if err := os.Lchown(path, -1, gid); err != nil {
		return fmt.Errorf("--socket-group: %w", err)
	}
	return nil
}

// listenTCP opens --listen.
func (o options) listenTCP(log *slog.Logger) (listener, error) {
	out := listener{peers: &peer.Listener{Kind: peer.Token, Hosts: onLoopback}}
	if o.tokenFile != "" {
		accepts, err := peer.TokenIn(o.tokenFile, log)
		if err != nil {
			return listener{}, fmt.Errorf("--token-file: %w", err)
		}
		out.peers.Token = accepts
	} else {
		names := tlsfiles.Names{CA: o.clientCA, Cert: o.serverCert, Key: o.serverKey}
		files, err := tlsfiles.Open(names, tlsfiles.Labels{CA: "--client-ca", Pair: "--listen-cert and --listen-key"})
		if err != nil {
			return listener{}, err
		}
		out.tls = files.Server(log)
		out.peers = &peer.Listener{Kind: peer.TLS, Hosts: func(host string) bool {
			return files.Names(hostOf(host))
		}}
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return listener{}, fmt.Errorf("--listen: %w", err)
	}
	out.Listener = l
	return out, nil
}

func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return host
}

// onLoopback reports whether host is a name of loopback. Another name may be one that a page
// rebound to loopback.
func onLoopback(host string) bool {
	h := strings.Trim(hostOf(host), "[]")
	return h == "localhost" || h == "127.0.0.1" || h == "::1"
}
