//go:build linux

package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// The benchmarks do in the test's process what the command does in separate processes. The kit is
// part of each name, as benchstat reads it:
//
//	go test -run '^$' -bench . -count 10 ./test/peers/bench | benchstat -col /kit -

// withEach runs op for each kit, on a server in a separate process, with a name that no other uses.
func withEach(b *testing.B, op func(b *testing.B, c client, name string)) {
	e, err := startEtcd(b.Context(), b.TempDir(), 1, false)
	require.NoError(b, err)
	defer e.stop()
	for i, kit := range three {
		b.Run("kit="+kit, func(b *testing.B) {
			c, err := kits[kit].dial(b.Context(), e.addr)
			require.NoError(b, err)
			b.ReportAllocs()
			op(b, c, fmt.Sprintf("%s-%d-%d", b.Name(), i, b.N))
		})
		require.NoError(b, e.clear(b.Context()))
	}
}

func sessionOf(b *testing.B, c client) session {
	s, err := c.session(b.Context(), longTTL)
	require.NoError(b, err)
	return s
}

func pass(b *testing.B, l locker) {
	h, err := l.acquire(b.Context())
	if err == nil {
		err = h.release(b.Context())
	}
	if err != nil {
		b.Error(err)
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	withEach(b, func(b *testing.B, c client, name string) {
		l := sessionOf(b, c).locker(name)
		pass(b, l)
		for b.Loop() {
			pass(b, l)
		}
	})
}

// BenchmarkAcquireRelease64 has 64 goroutines do it, with a name each.
func BenchmarkAcquireRelease64(b *testing.B) {
	withEach(b, func(b *testing.B, c client, name string) {
		s := sessionOf(b, c)
		var worker atomic.Int64
		b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			l := s.locker(fmt.Sprintf("%s-%d", name, worker.Add(1)))
			for pb.Next() {
				pass(b, l)
			}
		})
	})
}

// BenchmarkHandoff has ten sessions take one lock in turns.
func BenchmarkHandoff(b *testing.B) {
	withEach(b, func(b *testing.B, c client, name string) {
		lockers := make([]locker, 10)
		for i := range lockers {
			lockers[i] = sessionOf(b, c).locker(name)
			pass(b, lockers[i])
		}
		var passed atomic.Int64
		b.ResetTimer()
		_ = each(len(lockers), len(lockers), func(i int) error {
			for passed.Add(1) <= int64(b.N) {
				pass(b, lockers[i])
			}
			return nil
		})
	})
}

func BenchmarkTryHeld(b *testing.B) {
	withEach(b, func(b *testing.B, c client, name string) {
		_, err := sessionOf(b, c).locker(name).acquire(b.Context())
		require.NoError(b, err)
		l := sessionOf(b, c).locker(name)
		for b.Loop() {
			if h, err := l.try(b.Context()); h != nil || err != nil {
				b.Fatal(h, err)
			}
		}
	})
}

func BenchmarkTryFree(b *testing.B) {
	withEach(b, func(b *testing.B, c client, name string) {
		l := sessionOf(b, c).locker(name)
		for b.Loop() {
			h, err := l.try(b.Context())
			if err != nil || h == nil {
				b.Fatal(h, err)
			}
			if err := h.release(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkNewSession(b *testing.B) {
	withEach(b, func(b *testing.B, c client, _ string) {
		for b.Loop() {
			sessionOf(b, c)
		}
	})
}
