//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/internal/testkit/launch"
)

// daemonPrefix is the prefix of the names that pawld's policy allows.
const daemonPrefix = "bench/"

// daemonTTL is the longest that pawld allows.
const daemonTTL = 150 * time.Second

// buildDaemon builds pawld into dir.
func buildDaemon(ctx context.Context, dir string) (path string, err error) {
	path = filepath.Join(dir, "pawld")
	return path, launch.Build(ctx, path, "cmd/pawld")
}

// daemonKit is pawld in a separate process, and clients of its JSON on its socket.
type daemonKit struct{ path string }

func (k daemonKit) dial(ctx context.Context, addrs ...string) (_ client, err error) {
	d := &daemon{}
	defer func() {
		if err != nil {
			_ = d.Close()
			err = fmt.Errorf("%w\n%s", err, d.stderr.String())
		}
	}()
	if d.dir, err = os.MkdirTemp("", "pawl-bench-pawld-"); err != nil {
		return nil, err
	}
	policy, socket := filepath.Join(d.dir, "policy"), filepath.Join(d.dir, "s")
	line := fmt.Sprintf("uid:%d %s locks=20000 sessions=20000\n", os.Getuid(), daemonPrefix)
	if err := os.WriteFile(policy, []byte(line), 0o600); err != nil {
		return nil, err
	}
	d.cmd = exec.CommandContext(context.Background(), k.path, "--endpoints", strings.Join(addrs, ","), "--socket", socket, "--policy", policy,
		"--max-ttl", daemonTTL.String(), "--max-sessions", "20000", "--max-locks", "20000",
		"--max-connections", "200000", "--max-calls", "100000")
	d.cmd.Stderr = &d.stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.start(); err != nil {
		return nil, err
	}
	many := launch.Transport(socket)
	many.MaxIdleConns, many.MaxIdleConnsPerHost = 1024, 1024
	d.rpc = rpc{"http://pawld/pawl.v1.Locks/", &http.Client{Transport: many}}
	for !launch.Listens(socket) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("pawld does not serve: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return d, nil
}

// daemon is a process of pawld.
type daemon struct {
	cmd    *exec.Cmd
	dir    string
	rpc    rpc
	stderr bytes.Buffer // to be read once the process has ended
}

// start starts the process on a thread that stays, because the kernel ends the process with its
// thread.
func (d *daemon) start() error {
	started := make(chan error)
	go func() { // ends with this process
		runtime.LockOSThread()
		err := d.cmd.Start()
		started <- err
		if err == nil {
			select {}
		}
	}()
	return <-started
}

// Close ends the process.
func (d *daemon) Close() error {
	if d.cmd != nil && d.cmd.Process != nil {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
	}
	return os.RemoveAll(d.dir)
}

// cpu is what the process has used so far.
func (d *daemon) cpu() (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	err := unix.ClockGettime(int32(^d.cmd.Process.Pid<<3|scheduled), &t)
	return time.Duration(t.Nano()), err
}

// memory is what it has in memory, in bytes.
func (d *daemon) memory() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q", d.cmd.Process.Pid, text)
	}
	pages, err := strconv.Atoi(fields[1])
	return float64(pages * os.Getpagesize()), err
}

func (d *daemon) session(_ context.Context, ttl time.Duration) (session, error) {
	return daemonSession{d, id(), min(ttl, daemonTTL)}, nil // opened by its first acquisition
}

type daemonSession struct {
	d   *daemon
	id  string
	ttl time.Duration
}

func (s daemonSession) locker(name string) locker { return daemonLocker{s, daemonPrefix + name} }

type daemonLocker struct {
	s    daemonSession
	name string
}

func (l daemonLocker) acquire(ctx context.Context) (held, error) {
	request := id()
	var got struct{ State string }
	err := l.s.d.rpc.call(ctx, "Acquire", object{"session": l.s.id, "requestId": request, "names": []string{l.name},
		"mode": "EXCLUSIVE", "ttlMs": l.s.ttl.Milliseconds(), "waitMs": 30_000}, &got)
	if err == nil && got.State != "HELD" {
		err = fmt.Errorf("acquire %s: %s", l.name, got.State)
	}
	return daemonHeld{l.s, request}, err
}

func (daemonLocker) try(context.Context) (held, error) { return nil, errors.ErrUnsupported }

type daemonHeld struct {
	s       daemonSession
	request string
}

func (h daemonHeld) release(ctx context.Context) error {
	var got struct{ Results []struct{ Released bool } }
	err := h.s.d.rpc.call(ctx, "Release", object{"session": h.s.id, "requestIds": []string{h.request}}, &got)
	if err == nil && (len(got.Results) != 1 || !got.Results[0].Released) {
		err = errors.New("it was not held until its release")
	}
	return err
}

// renew keeps the session, which has to hold a lock.
func (s daemonSession) renew(ctx context.Context) error {
	var got struct{ Locks []struct{ State string } }
	err := s.d.rpc.call(ctx, "Renew", object{"session": s.id}, &got)
	if err == nil && (len(got.Locks) != 1 || got.Locks[0].State != "HELD") {
		err = fmt.Errorf("renewed: %v, want one lock that is held", got.Locks)
	}
	return err
}

// gatewayKit is etcd's lock service through its gateway for JSON.
type gatewayKit struct{}

func (gatewayKit) dial(_ context.Context, addrs ...string) (client, error) {
	return gateway{rpc{"http://" + addrs[0] + "/v3/", &http.Client{Transport: &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024}}}}, nil
}

type gateway struct{ rpc rpc }

func (g gateway) session(ctx context.Context, ttl time.Duration) (session, error) {
	var got struct{ ID string }
	err := g.rpc.call(ctx, "lease/grant", object{"TTL": int(ttl / time.Second)}, &got)
	return gatewaySession{g, got.ID}, err
}

type gatewaySession struct {
	g     gateway
	lease string
}

func (s gatewaySession) locker(name string) locker { return gatewayLocker{s, []byte(name)} }

type gatewayLocker struct {
	s    gatewaySession
	name []byte
}

func (l gatewayLocker) acquire(ctx context.Context) (held, error) {
	h := gatewayHeld{g: l.s.g}
	return h, l.s.g.rpc.call(ctx, "lock/lock", object{"name": l.name, "lease": l.s.lease}, &h)
}

func (gatewayLocker) try(context.Context) (held, error) { return nil, errors.ErrUnsupported }

type gatewayHeld struct {
	g   gateway
	Key []byte
}

func (h gatewayHeld) release(ctx context.Context) error {
	return h.g.rpc.call(ctx, "lock/unlock", object{"key": h.Key}, &struct{}{})
}

type object map[string]any

// rpc calls in JSON.
type rpc struct {
	base string
	http *http.Client
}

func (r rpc) call(ctx context.Context, method string, ask object, answer any) error {
	text, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+method, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", method, resp.Status, text)
	}
	return json.Unmarshal(text, answer)
}

// id is a unique string of 32 hexadecimal digits.
func id() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
