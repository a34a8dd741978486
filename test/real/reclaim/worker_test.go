//go:build linux

package reclaim_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// An order is what a worker is to do: hold the lock of that name until it is killed.
type order struct {
	Endpoints []string
	Dir       string // Config.ReclaimDir
	Name      string
	LockDelay time.Duration
	Beliefs   string // a file of beliefs, in which the worker has a slot
	Slot      int
	Storage   string // a socket to which it writes its token all the time; empty for none
	Pipelined bool   // it does not wait for the answer to a write before the next
}

// ttl is so long that no lease expires in a test.
const ttl = time.Hour

// A belief is what a worker knows, in memory that outlives it. The times are of a clock that all processes
// share.
type belief struct {
	token    atomic.Int64
	acquired atomic.Int64 // after Acquire had returned
	last     atomic.Int64 // before the last call of Err that returned nil
	_        [5]int64     // a cache line
}

// beliefs are those of n workers, in a file.
func beliefs(path string, n int) ([]belief, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := n * int(unsafe.Sizeof(belief{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*belief)(unsafe.Pointer(&mem[0])), n), nil
}

func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// worker holds a lock, and believes, until it is killed.
func worker(args []string) error {
	var o order
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return err
	}
	all, err := beliefs(o.Beliefs, o.Slot+1)
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, err := pawl.Dial(ctx, pawl.Config{Endpoints: o.Endpoints, ReclaimDir: o.Dir, Session: lease.Options{TTL: ttl, LockDelay: o.LockDelay}})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Session(ctx); err != nil {
		return err
	}
	fmt.Println("waits")
	h, err := lock.New(c, o.Name, lock.Options{}).Acquire(ctx)
	if err != nil {
		return err
	}
	mine := &all[o.Slot]
	mine.acquired.Store(now())
	mine.token.Store(int64(h.Token()))
	fmt.Println("held")
	if o.Storage != "" {
		return o.write(h, mine)
	}
	for {
		if err := mine.check(h); err != nil {
			return err
		}
	}
}

// check records that h is held.
func (b *belief) check(h *lock.Held) error {
	at := now()
	if err := h.Err(); err != nil {
		return err
	}
	b.last.Store(at)
	return nil
}

// write writes the token to the storage all the time.
func (o order) write(h *lock.Held, mine *belief) error {
	conn, err := net.Dial("unix", o.Storage)
	if err != nil {
		return err
	}
	defer conn.Close()
	for answers := bufio.NewScanner(conn); ; {
		if err := mine.check(h); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(conn, int64(h.Token())); err != nil {
			return err
		}
		if !o.Pipelined && !answers.Scan() {
			return answers.Err()
		}
	}
}
