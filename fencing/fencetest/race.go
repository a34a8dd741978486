package fencetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/pawl-locks/pawl/fencing"
)

// RaceResources are what the writers of Race write to.
var RaceResources = []string{"one", "two"}

// Race has writers take turns as holders, without a lock: each turn has the next token, reads, writes one to three values, and reads again, while others have begun
// theirs. It returns the last token when all have done their rounds. A turn ends at its first error; what rec noted is to be
// judged by Check. The seed fixes what each writer does, not how they interleave.
func Race(ctx context.Context, rec *Recorder, writers, rounds int, seed uint64) fencing.Token {
	var token atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() { // ends after its rounds
			rnd := rand.New(rand.NewPCG(seed, uint64(w)))
			as := rec.As(fmt.Sprint("writer ", w))
			for range rounds {
				turn(ctx, as, RaceResources[rnd.IntN(len(RaceResources))], fencing.Token(token.Add(1)), 1+rnd.IntN(3))
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
		if s.Write(ctx, resource, t, fmt.Sprintf("%d by %d", i, t)) != nil {
			return
		}
	}
	_, _ = s.Read(ctx, resource, t)
}
