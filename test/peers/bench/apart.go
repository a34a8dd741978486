//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/internal/txn"
)

// aparts are queues whose waiters are spread over processes, or over the clients of one
// process.
func aparts() []scenario {
	return []scenario{
		{Name: "apart-100-in-20-processes", Task: "apart", Sizes: []int{100}, Processes: 20, Clients: 1, kits: three, turns: 3},
		{Name: "apart-1000-in-20-processes", Task: "apart", Sizes: []int{1_000}, Processes: 20, Clients: 1, kits: three, turns: 1},
		{Name: "apart-100-in-100-clients", Task: "apart", Sizes: []int{100}, Processes: 1, Clients: 100, kits: three, turns: 2},
		{Name: "apart-250-names-of-4", Task: "apart", Sizes: []int{1_000}, Processes: 20, Clients: 1, Names: 250, kits: three, turns: 1},
	}
}

// apartPoints are their rows on the page.
func apartPoints() (all []point) {
	for _, s := range aparts() {
		all = append(all, point{s.Name, s.Sizes[0]})
	}
	return all
}

// apart lets n waiters queue, in separate processes, behind holders in this process, and then lets
// the queues advance by themselves. An operation, and P50 and P99, mean the same as for a chain.
// CPU and allocations are those of the processes. Wall is from the first release to the last.
func apart(ctx context.Context, w *worker, n int) (f figures, err error) {
	names := max(1, w.Scenario.Names)
	if err := w.grow(ctx, 1); err != nil {
		return f, err
	}
	conn, err := connect(w.Addr)
	if err != nil {
		return f, err
	}
	defer conn.Close()
	w.raw = pb.NewKVClient(conn)
	holders := make([]held, names)
	for i := range holders {
		if holders[i], err = w.sessions[0].locker(nameAt(w.Tag, i)).acquire(ctx); err != nil {
			return f, err
		}
	}
	waiting, err := w.startProcesses(n)
	defer waiting.kill()
	if err != nil {
		return f, err
	}
	m := &meter{addr: w.Addr}
	if err := m.start(); err != nil {
		return f, err
	}
	polls, err := waiting.enqueue(ctx, w, n, names)
	if err != nil {
		return f, err
	}
	time.Sleep(200 * time.Millisecond) // until the last watches are created
	released := make([]times, names)
	err = each(names, names, func(i int) error {
		released[i].Released = []int64{now()}
		return holders[i].release(ctx)
	})
	if err != nil {
		return f, err
	}
	sum, err := waiting.reports(released)
	if err != nil {
		return f, err
	}
	if err := m.stop(); err != nil {
		return f, err
	}
	m.sum.calls["Range"] -= float64(polls)
	f = m.figures(n)
	f.CPU, f.Allocs, f.AllocBytes = sum.CPU, sum.Allocs, sum.AllocBytes
	f.Wall = time.Duration(sum.End - sum.begin()).Seconds()
	handoffs, err := sum.handoffs()
	f.P50, f.P99 = quantiles(handoffs)
	return f, err
}

// nameAt is the i-th name of a run.
func nameAt(tag string, i int) string { return fmt.Sprintf("%s-%d", tag, i) }

// now is a time that is the same in all processes of a machine, in nanoseconds.
func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail with these arguments
	return t.Nano()
}

// times are when a name was acquired, and when Release was called.
type times struct{ Acquired, Released []int64 }

// report is what a process of waiters measured of itself, or the sum of several.
type report struct {
	CPU, Allocs, AllocBytes float64
	Names                   []times
	End                     int64 // when the last one had released
}

func (r *report) add(other report) {
	r.CPU += other.CPU
	r.Allocs += other.Allocs
	r.AllocBytes += other.AllocBytes
	r.End = max(r.End, other.End)
	for i, t := range other.Names {
		r.Names[i].Acquired = append(r.Names[i].Acquired, t.Acquired...)
		r.Names[i].Released = append(r.Names[i].Released, t.Released...)
	}
}

func (r *report) begin() int64 {
	first := r.End
	for _, t := range r.Names {
		first = min(first, slices.Min(t.Released))
	}
	return first
}

// handoffs are the times from each release to the next acquisition of its name. An error is an
// acquisition before the release that allows it.
func (r *report) handoffs() (all []time.Duration, err error) {
	for name, t := range r.Names {
		slices.Sort(t.Acquired)
		slices.Sort(t.Released)
		for i, at := range t.Acquired {
			if i >= len(t.Released) || at < t.Released[i] {
				return nil, fmt.Errorf("name %d: acquisition %d came before the release that lets it in", name, i+1)
			}
			all = append(all, time.Duration(at-t.Released[i]))
		}
	}
	return all, nil
}

// processes are the processes of waiters, each with its sessions.
type processes []*waiters

type waiters struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
}

// part is the share of an order's waiters that one process has, which are those with the numbers
// Index, Index + Processes and so on, below Total.
type part struct {
	Order        order
	Index, Total int
}

// at is the number of the process's j-th waiter.
func (p part) at(j int) int { return j*p.Order.Scenario.Processes + p.Index }

// count is how many waiters it has, of the first n of all.
func (p part) count(n int) int {
	return max(0, (n-p.Index+p.Order.Scenario.Processes-1)/p.Order.Scenario.Processes)
}

// name is the number of the i-th waiter's name. Those of one name are in different processes,
// as far as there are any.
func (p part) name(i int) int { return i * max(1, p.Order.Scenario.Names) / p.Total }

// startProcesses starts the processes, and returns when all have their sessions.
func (w *worker) startProcesses(n int) (all processes, err error) {
	for i := range w.Scenario.Processes {
		p := &waiters{cmd: again(roleWaiters)}
		p.cmd.Stderr = os.Stderr
		in, err := p.cmd.StdinPipe()
		if err != nil {
			return all, err
		}
		out, err := p.cmd.StdoutPipe()
		if err != nil {
			return all, err
		}
		if err := p.cmd.Start(); err != nil {
			return all, err
		}
		p.in, p.out = json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))
		all = append(all, p)
		if err := p.in.Encode(part{Order: w.order, Index: i, Total: n}); err != nil {
			return all, err
		}
	}
	for _, p := range all {
		var ready bool
		if err := p.out.Decode(&ready); err != nil {
			return all, fmt.Errorf("a process of waiters: %w", err)
		}
	}
	return all, nil
}

// enqueue makes all waiters enqueue, a part of them at a time, and returns how often it polled.
func (c processes) enqueue(ctx context.Context, w *worker, n, names int) (polls int, err error) {
	for so := 0; so < n; {
		so = min(so+arrivals, n)
		for _, p := range c {
			if err := p.in.Encode(so); err != nil {
				return polls, err
			}
		}
		more, err := w.countedUntil(ctx, so+names)
		polls += more
		if err != nil {
			return polls, err
		}
	}
	return polls, nil
}

// countedUntil waits until n keys exist under the run's names, and returns how often it polled.
func (w *worker) countedUntil(ctx context.Context, n int) (polls int, err error) {
	prefix := w.Tag + "-"
	for {
		polls++
		r, err := w.raw.Range(ctx, &pb.RangeRequest{Key: []byte(prefix), RangeEnd: txn.PrefixEnd(prefix), CountOnly: true})
		if err != nil || r.Count == int64(n) {
			return polls, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// reports waits for the reports of all processes, and adds them to when the holders released.
func (c processes) reports(holders []times) (sum report, err error) {
	sum.Names = holders
	for _, p := range c {
		var r report
		if err := errors.Join(p.out.Decode(&r), p.cmd.Wait()); err != nil {
			return sum, fmt.Errorf("a process of waiters: %w", err)
		}
		sum.add(r)
	}
	return sum, nil
}

// kill kills the processes that have not ended.
func (c processes) kill() {
	for _, p := range c {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	}
}

// waitApart is the main of a process of waiters. It reads its part from standard input, makes its
// sessions, reports that, and then lets as many waiters enqueue as each line of standard input
// says. It ends with a report when all have had their turn.
func waitApart() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var p part
	if err := in.Decode(&p); err != nil {
		return err
	}
	lockers, err := p.lockers(ctx)
	if err != nil {
		return err
	}
	if err := out.Encode(true); err != nil {
		return err
	}
	l := &localWaiters{report: report{Names: make([]times, max(1, p.Order.Scenario.Names))}}
	runtime.GC()
	var before, after reading
	before.local()
	for started := 0; started < len(lockers); {
		var so int // of all waiters
		if err := in.Decode(&so); err != nil {
			return err
		}
		for ; started < p.count(so); started++ {
			name, locker := p.name(p.at(started)), lockers[started]
			l.Go(func() error { return l.take(ctx, name, locker) })
		}
	}
	if err := l.Wait(); err != nil {
		return err
	}
	after.local()
	l.report.CPU = (after.cpu - before.cpu).Seconds()
	l.report.Allocs = float64(after.mallocs - before.mallocs)
	l.report.AllocBytes = float64(after.allocated - before.allocated)
	return out.Encode(l.report)
}

// lockers are those of the process's waiters, each in a separate session.
func (p part) lockers(ctx context.Context) ([]locker, error) {
	k, err := kitOf(p.Order.Kit)
	if err != nil {
		return nil, err
	}
	clients := make([]client, p.Order.Scenario.Clients)
	for i := range clients {
		if clients[i], err = k.dial(ctx, p.Order.Dial...); err != nil {
			return nil, err
		}
	}
	all := make([]locker, p.count(p.Total))
	return all, each(8, len(all), func(j int) error {
		s, err := clients[j%len(clients)].session(ctx, p.Order.Scenario.TTL)
		if err == nil {
			all[j] = s.locker(nameAt(p.Order.Tag, p.name(p.at(j))))
		}
		return err
	})
}

// localWaiters are the waiters of a process.
type localWaiters struct {
	errgroup.Group
	mu     sync.Mutex
	report report
}

// take waits for its turn, and passes the lock on.
func (l *localWaiters) take(ctx context.Context, name int, locker locker) error {
	h, err := locker.acquire(ctx)
	at := now()
	if err != nil {
		return err
	}
	l.mu.Lock()
	t := &l.report.Names[name]
	t.Acquired = append(t.Acquired, at)
	t.Released = append(t.Released, now())
	l.mu.Unlock()
	err = h.release(ctx)
	l.mu.Lock()
	l.report.End = max(l.report.End, now())
	l.mu.Unlock()
	return err
}
