package fencetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/pawl-locks/pawl/fencing"
)

// RaceResources are what the writers of Race write to.
var RaceResources = []string{"one", "two"}

// Race has writers take turns as holders, without a lock. Each turn has the next token, reads, writes
// one to three values, and reads again, while others have begun their turns. If the store admits shared
// tokens, every other turn has one, and only reads. Race returns the last token when all have done their
// rounds. A turn ends at its first error. Pass what rec noted to Check. The writers are spread over the
// instances of rec. The seed fixes what each writer does, not how they interleave.
func Race(ctx context.Context, rec *Recorder, writers, rounds int, seed uint64) fencing.Token {
	var token atomic.Int64
	var wg sync.WaitGroup
	_, shared := rec.store.(SharedStore)
	for w := range writers {
		as := rec.As(fmt.Sprint("writer ", w))
		wg.Go(func() { // ends after its rounds
			rnd := rand.New(rand.NewPCG(seed, uint64(w)))
			for range rounds {
				resource, t := RaceResources[rnd.IntN(len(RaceResources))], fencing.Token(token.Add(1))
				if shared && rnd.IntN(2) == 0 {
					sharedTurn(ctx, as, resource, t, 1+rnd.IntN(3))
				} else {
					turn(ctx, as, resource, t, 1+rnd.IntN(3))
				}
			}
		})
	}
	wg.Wait()
	return fencing.Token(token.Load())
}

func turn(ctx context.Context, s Store, resource string, t fencing.Token, writes int) {
	if _, err := s.Read(ctx, resource, t); err != nil {
		return
	}
	for i := range writes {
		runtime.Gosched() // as in sharedTurn
		if s.Write(ctx, resource, t, fmt.Sprintf("%d by %d", i, t)) != nil {
			return
		}
	}
	_, _ = s.Read(ctx, resource, t)
}

func sharedTurn(ctx context.Context, s SharedStore, resource string, t fencing.Token, reads int) {
	for range 1 + reads {
		runtime.Gosched() // so that those of a store in memory interleave
		if _, err := s.ReadShared(ctx, resource, t); err != nil {
			return
		}
	}
}
