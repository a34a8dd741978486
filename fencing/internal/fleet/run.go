//go:build unix

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/fencing/fencetest"
)

// A Fleet is one run.
type Fleet struct {
	Store   string // names the opener
	Open    Opener // the same, for the parent
	Address string
	Guard   bool
	Workers int           // 0: 8
	For     time.Duration // at least; longer where too little happened to show anything
	TTL     time.Duration // of leases at first, 0: 120 ms; longer where nobody is done within it
	Cut     func()        // cuts the workers from the store; nil: there is no connection to cut
	Issuer  Issuer        // nil: counts
	Seed    uint64
}

// A Result is what a run came to.
type Result struct {
	Acked, Lost        int
	Refused, Unknown   int
	Stops, Kills, Cuts int
	Expired            int // leases
	History            []fencetest.Op
	Missing            []string // some of the lost
	TTL                time.Duration
}

func (r Result) String() string {
	return fmt.Sprintf("%d writes acknowledged, %d lost; %d operations refused, %d with unknown outcome; %d stops, %d kills, %d cuts, %d leases expired, of %v at the end",
		r.Acked, r.Lost, r.Refused, r.Unknown, r.Stops, r.Kills, r.Cuts, r.Expired, r.TTL)
}

const resources = 3

// Run runs the fleet and returns what was lost.
func (f Fleet) Run(t testing.TB) Result {
	t.Helper()
	if f.Workers == 0 {
		f.Workers = 8
	}
	if f.TTL == 0 {
		f.TTL = 120 * time.Millisecond
	}
	dir, err := os.MkdirTemp("", "fleet") // short: it is in a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if f.Issuer == nil {
		f.Issuer = &counter{}
	}
	auth, err := newAuthority(filepath.Join(dir, "authority"), f.TTL, f.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{fleet: f, dir: dir, rnd: rand.New(rand.NewPCG(f.Seed, 1))}
	for i := range f.Workers {
		y.workers = append(y.workers, y.start(t, i))
	}
	y.torment(t, auth)
	for _, w := range y.workers {
		_ = w.stdin.Close()
		w.signal(syscall.SIGCONT)
	}
	for _, w := range y.workers {
		w.finish()
	}
	for _, w := range y.all {
		if code := w.cmd.ProcessState.ExitCode(); code > 0 { // a data race too
			t.Errorf("a worker ended with status %d:\n%s", code, w.err.String())
		}
	}
	auth.close()
	_, y.result.Expired, y.result.TTL = auth.seen()
	y.collect(t)
	return y.result
}

// A yard is a run that is going on.
type yard struct {
	fleet   Fleet
	dir     string
	rnd     *rand.Rand
	workers []*process
	all     []*process // those that were killed, too
	logs    []string
	result  Result
}

// What must have happened in a run, so that it shows something, and how much longer a run may take for it.
const (
	minGranted = 40
	minExpired = 8
	overtime   = time.Minute
)

// torment stops, kills and cuts until the time is over.
func (y *yard) torment(t testing.TB, auth *authority) {
	var resumed sync.WaitGroup
	defer resumed.Wait()
	for began := time.Now(); ; wait(time.Duration(5+y.rnd.IntN(30)) * time.Millisecond) {
		granted, expired, ttl := auth.seen()
		over := time.Since(began) - y.fleet.For
		if over > overtime || over > 0 && granted >= minGranted && expired >= minExpired {
			return
		}
		victim := y.rnd.IntN(len(y.workers))
		if holders := auth.holders(); len(holders) > 0 && y.rnd.IntN(3) > 0 {
			victim = holders[y.rnd.IntN(len(holders))]
		}
		switch n := y.rnd.IntN(20); {
		case n < 13:
			y.result.Stops++
			w, d := y.workers[victim], time.Duration(float64(ttl)*(0.3+2*y.rnd.Float64()))
			w.signal(syscall.SIGSTOP)
			resumed.Go(func() { // ends after the pause
				wait(d)
				w.signal(syscall.SIGCONT)
			})
		case n < 16:
			y.result.Kills++
			y.workers[victim].kill()
			y.workers[victim] = y.start(t, victim)
		case n < 18:
			y.result.Cuts++
			auth.cut(y.rnd)
		default:
			if y.fleet.Cut != nil {
				y.result.Cuts++
				y.fleet.Cut()
			}
		}
	}
}

// collect reads the logs and the store.
func (y *yard) collect(t testing.TB) {
	acked := map[string]map[string]bool{}
	for _, path := range y.logs {
		ops, ids, err := readLog(path)
		if os.IsNotExist(err) {
			continue // killed before it began
		}
		if err != nil {
			t.Fatal(err)
		}
		y.result.History = append(y.result.History, ops...)
		for resource, list := range ids {
			if acked[resource] == nil {
				acked[resource] = map[string]bool{}
			}
			for _, id := range list {
				acked[resource][id] = true
			}
		}
	}
	for _, o := range y.result.History {
		switch o.Outcome {
		case fencetest.Refused, fencetest.NotApplied:
			y.result.Refused++
		case fencetest.Unknown:
			y.result.Unknown++
		}
	}
	store, err := y.fleet.Open(y.fleet.Address, y.fleet.Guard)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for resource, ids := range acked {
		y.compare(t, store, resource, maps.Clone(ids))
	}
}

// compare counts what is acknowledged and not there.
func (y *yard) compare(t testing.TB, store Store, resource string, ids map[string]bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	y.result.Acked += len(ids)
	last := y.fleet.Issuer.Issue(resource)
	value, err := store.Read(ctx, resource, last)
	for i := 0; i < 10 && err != nil; i++ { // of a connection that was cut
		value, err = store.Read(ctx, resource, last)
	}
	if err != nil {
		t.Fatalf("the last read of %s: %v", resource, err)
	}
	for id := range strings.FieldsSeq(value) {
		delete(ids, id)
	}
	y.result.Lost += len(ids)
	for id := range ids {
		if len(y.result.Missing) < 5 {
			y.result.Missing = append(y.result.Missing, resource+" lacks "+id)
		}
	}
}

// A process is one worker.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
	err   strings.Builder
}

func (y *yard) start(t testing.TB, who int) *process {
	log := filepath.Join(y.dir, fmt.Sprintf("log%d", len(y.logs)))
	y.logs = append(y.logs, log)
	text, err := json.Marshal(order{Who: who, Store: y.fleet.Store, Address: y.fleet.Address, Guard: y.fleet.Guard, Authority: filepath.Join(y.dir, "authority"), Log: log,
		Resources: resources, MinThink: time.Millisecond, Think: y.fleet.TTL / 6, Seed: y.rnd.Uint64()})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), orderVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(p.cmd.SysProcAttr)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { // ends with the process, which kill and finish wait for
		runtime.LockOSThread() // the kernel takes the death of the thread that started it for the parent's
		defer close(p.ended)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	y.all = append(y.all, p)
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// finish waits until the worker, whose standard input is closed, has ended its turn; within a bound.
func (p *process) finish() {
	select {
	case <-p.ended:
	case <-time.After(2 * opTime):
		p.kill()
	}
}
