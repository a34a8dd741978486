//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// order is what a client's process reads from its standard input.
type order struct {
	Kit      string
	Scenario scenario
	Addr     string   // the server, or the first member
	Metrics  string   // where it shows its metrics
	Cert     string   // the file of its certificate; "" without TLS
	Dial     []string // where a client connects
	Members  []member // if there is more than one
	Tag      string   // of this run; no other uses its names
	Profile  string   // a folder for profiles; "" for none
	Daemon   string   // the path of pawld, for kits that need it
}

// work is the main of a client's process. It carries out one order, and writes the figures, one for
// each size, to its standard output.
func work() error {
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return err
	}
	k, err := kitOf(o.Kit)
	if err != nil {
		return err
	}
	task := tasks[o.Scenario.Task]
	if task == nil {
		return fmt.Errorf("no task %q", o.Scenario.Task)
	}
	if o.Profile != "" {
		stop, err := profile(filepath.Join(o.Profile, o.Tag))
		if err != nil {
			return err
		}
		defer stop()
		o.Scenario.Span *= 10 // so that the profile has enough samples
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(o.Scenario.Patience, 5*time.Minute))
	defer cancel()
	if d, ok := k.(daemonKit); ok {
		d.path = o.Daemon
		k = d
	}
	if k, err = securedWith(k, o.Cert); err != nil {
		return err
	}
	w := &worker{order: o, kit: k}
	if w.client, err = k.dial(ctx, o.Dial...); err != nil {
		return err
	}
	if c, ok := w.client.(io.Closer); ok {
		defer c.Close()
	}
	var got []figures
	for _, n := range o.Scenario.Sizes {
		f, err := task(ctx, w, n)
		if err != nil {
			return err
		}
		f.N, f.Turns = n, 1
		got = append(got, f)
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

// profile begins profiles of the CPU and of what is allocated, written to
// path.cpu and path.allocs by stop.
func profile(path string) (stop func(), err error) {
	runtime.MemProfileRate = 64 << 10
	cpu, err := os.Create(path + ".cpu")
	if err != nil {
		return nil, err
	}
	allocs, err := os.Create(path + ".allocs")
	if err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = pprof.Lookup("allocs").WriteTo(allocs, 0)
		cpu.Close()
		allocs.Close()
	}, pprof.StartCPUProfile(cpu)
}

// turn runs one scenario with one kit, in a separate process, and cleans up what that process
// leaves.
func turn(ctx context.Context, e *etcd, o order) (got []figures, err error) {
	cmd := again(roleWorker)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err = errors.Join(json.NewEncoder(in).Encode(o), in.Close())
	text, readErr := io.ReadAll(out)
	err = errors.Join(err, readErr, wait(ctx, cmd))
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err == nil {
		err = e.clear(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%s, %s: %w", o.Scenario.Name, o.Kit, err)
	}
	return got, err
}

func wait(ctx context.Context, cmd *exec.Cmd) error {
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	return cmd.Wait()
}

// worker is a client's process at work.
type worker struct {
	order
	kit      kit
	client   client
	sessions []session // so far
	held     []held    // so far
	raw      pb.KVClient
	conn     *grpc.ClientConn // raw's, if server made it
	turns    turns
}

// tasks are what scenarios name.
var tasks = map[string]func(ctx context.Context, w *worker, n int) (figures, error){
	"uncontended": uncontended,
	"try-held":    tryHeld,
	"try-free":    tryFree,
	"sessions":    newSessions,
	"chain":       chain,
	"apart":       apart,
	"busy":        busy,
	"held":        manyHeld,
	"renewals":    renewals,

	"renewals-apart": renewalsApart,

	"readers":     readers,
	"permits":     permits,
	"sets":        sets,
	"beside":      beside,
	"served-idle": servedIdle,

	"one-name":     oneName,
	"given-up":     givenUp,
	"lost-answers": lostAnswers,
	"no-space":     noSpace,
	"frozen":       frozenMember,
	firstLockName:  firstLock,

	"past":              past,
	"life":              life,
	"served-life":       servedLife,
	"queue-of":          queueOf,
	"held-by-one":       heldByOne,
	"shards-of":         shardsOf,
	"schedules-at-rest": schedulesAtRest,
	"schedules-missed":  schedulesMissed,

	"shards-start":   shardsStart,
	"shards-rest":    shardsRest,
	"shards-join":    shardsJoin,
	"shards-leave":   shardsLeave,
	"shards-death":   shardsDeath,
	"shards-rolling": shardsRolling,
}

// grow makes sessions until there are n.
func (w *worker) grow(ctx context.Context, n int) error {
	have := len(w.sessions)
	w.sessions = append(w.sessions, make([]session, max(0, n-have))...)
	return each(32, len(w.sessions)-have, func(i int) (err error) {
		w.sessions[have+i], err = w.client.session(ctx, w.Scenario.TTL)
		return err
	})
}

// metered measures f, which returns how many operations it was.
func (w *worker) metered(f func() (int, error)) (figures, error) {
	m := &meter{addr: w.Metrics}
	m.daemon, _ = w.client.(*daemon)
	if err := m.start(); err != nil {
		return figures{}, err
	}
	n, err := f()
	if err != nil {
		return figures{}, err
	}
	if err := m.stop(); err != nil {
		return figures{}, err
	}
	return m.figures(n), nil
}
