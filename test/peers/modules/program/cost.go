//go:build ignore

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl/lock"
)

// beside measures what a lock and its release cost this process, one after the other: microseconds of CPU, and
// allocations.
func beside(ctx context.Context, endpoint string) error {
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	c, err := dial(ctx, endpoint)
	if err != nil {
		return err
	}
	defer c.Close()
	m := lock.New(c, "cost", lock.Options{})
	if err := pairs(ctx, m, n/10+1); err != nil { // warms up
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := used()
	if err := pairs(ctx, m, n); err != nil {
		return err
	}
	cpu = used() - cpu
	runtime.ReadMemStats(&after)
	fmt.Printf("%.1f %d\n", float64(cpu.Microseconds())/float64(n), (after.Mallocs-before.Mallocs)/uint64(n))
	return nil
}

func pairs(ctx context.Context, m *lock.Mutex, n int) error {
	for range n {
		h, err := m.Acquire(ctx)
		if err != nil {
			return err
		}
		if err := h.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// used is the CPU that this process has used.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
