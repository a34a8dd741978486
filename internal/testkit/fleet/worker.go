//go:build unix

package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/fencetest"
)

// An Opener opens, in a worker or in the parent, the store at an address, with its guard or without.
type Opener func(address string, guard bool) (Store, error)

// A Store is what the workers read and write. Close ends it.
type Store interface {
	fencetest.Store
	io.Closer
}

// An order is what a worker is to do.
type order struct {
	Who             int
	Store, Address  string
	Guard           bool
	Authority, Log  string
	Resources       int
	Readers         Readers
	MinThink, Think time.Duration
	Seed            uint64
}

const orderVariable = "PAWL_FLEET_WORKER"

// opTime bounds an operation on the store.
const opTime = 3 * time.Second

// Main does a worker's work and does not return, if this process is a worker. TestMain calls it
// first.
func Main(openers map[string]Opener) {
	text := os.Getenv(orderVariable)
	if text == "" {
		return
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.work(openers[o.Store])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (o order) work(open Opener) error {
	out, err := os.OpenFile(o.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	store, err := open(o.Address, o.Guard)
	if err != nil {
		return err
	}
	if store, err = o.Readers.store(store, func() (Store, error) { return open(o.Address, false) }); err != nil {
		return err
	}
	defer store.Close()
	var stop atomic.Bool
	go func() { // ends with the process; the parent closes standard input after the run
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop.Store(true)
	}()
	w := worker{order: o, store: store, actor: &actor{who: fmt.Sprintf("worker %d (%d)", o.Who, os.Getpid()), out: out}, rnd: rand.New(rand.NewPCG(o.Seed, uint64(o.Who)))}
	for !stop.Load() {
		conn, err := net.Dial("unix", o.Authority)
		if err != nil {
			wait(10 * time.Millisecond) // it is closed, and so is standard input soon
			continue
		}
		for answers := bufio.NewScanner(conn); !stop.Load() && w.round(conn, answers); {
		}
		_ = conn.Close()
	}
	return nil
}

type worker struct {
	order
	store Store
	actor *actor
	rnd   *rand.Rand
	n     int
}

// round acquires, reads, thinks, writes and releases. It returns false when the connection to
// the authority is gone. It does not check its lease.
func (w *worker) round(conn net.Conn, answers *bufio.Scanner) bool {
	resource := fmt.Sprint("set", w.rnd.IntN(w.Resources))
	mode, work := exclusive, w.update
	if w.Readers != NoReaders && w.rnd.IntN(2) == 0 {
		mode, work = shared, w.look
	}
	fmt.Fprintf(conn, "acquire %d %s %s\n", w.Who, resource, mode)
	var t fencing.Token
	if !answers.Scan() {
		return false
	}
	if _, err := fmt.Sscanf(answers.Text(), "granted %d", &t); err != nil {
		return false
	}
	work(resource, t)
	_, err := fmt.Fprintf(conn, "release %s %d\n", resource, t)
	return err == nil
}

// update adds an ID to the set that the resource holds.
func (w *worker) update(resource string, t fencing.Token) {
	w.n++
	id := fmt.Sprintf("%d.%d.%d", w.Who, os.Getpid(), w.n)
	ctx, cancel := context.WithTimeout(context.Background(), opTime)
	defer cancel()
	h := w.holder(ctx, resource)
	set, err := h.read(t)
	if err != nil {
		return
	}
	wait(w.MinThink + rand.N(w.Think))
	_ = h.write(t, set, id)
}

func (w *worker) holder(ctx context.Context, resource string) *holder {
	return &holder{w.actor, w.store, ctx, resource}
}

// look reads a set twice, under a shared lock.
func (w *worker) look(resource string, t fencing.Token) {
	ctx, cancel := context.WithTimeout(context.Background(), opTime)
	defer cancel()
	for range 2 {
		if w.holder(ctx, resource).look(t) != nil {
			return
		}
		wait(w.MinThink + rand.N(w.Think))
	}
}

func wait(d time.Duration) { <-time.After(d) }
