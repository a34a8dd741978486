package shard_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/shard"
)

// Workers join, leave, die and are cut off at random for two minutes. No two works of a shard overlap,
// no write of a holder is refused, every counter is exact, and ten seconds after the last change the
// shards are balanced, after few moves.
// rule: SH1
func TestManyWorkersThatComeAndGo(t *testing.T) {
	first := testscale.Seed(t)
	for i := range uint64(testscale.Of(2, 40)) {
		inBubble(t, 64, func(w *fixture) { w.comeAndGo(rand.New(rand.NewPCG(first+i, 1)), 12) })
	}
}

func TestTwoHundredWorkersThatComeAndGo(t *testing.T) {
	testscale.OnlyProof(t, "it takes minutes")
	inBubble(t, 2000, func(w *fixture) { w.comeAndGo(rand.New(rand.NewPCG(testscale.Seed(t), 2)), 200) })
}

func (w *fixture) comeAndGo(r *rand.Rand, most int) {
	w.Helper()
	var living []*worker
	join := func() { living = append(living, w.start(shard.Options{})) }
	for range most / 2 {
		join()
	}
	w.pass(5 * time.Second)
	w.shared()
	before, least := w.total(), 0
	var leaving []*worker
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); w.pass(time.Duration(r.Int64N(int64(4 * time.Second)))) {
		at := r.IntN(len(living))
		x := living[at]
		least += w.n/len(living) + 1 // how many shards each of these changes moves
		switch {
		case len(living) < most && r.IntN(2) == 0 || len(living) < 3:
			join()
			continue
		case r.IntN(3) == 0:
			x.kill()
		case r.IntN(3) == 0:
			x.net.set(true)
			time.AfterFunc(time.Duration(r.Int64N(int64(2*ttl))), func() { x.net.set(false) })
			least += w.n/len(living) + 1 // the worker comes back
			continue
		default:
			x.cancel()
			leaving = append(leaving, x)
		}
		living = append(living[:at], living[at+1:]...)
	}
	for _, x := range leaving {
		<-x.done
		x.gone = true
		require.Error(w, x.err)
	}
	w.pass(2*ttl + 3*time.Second) // the last that died or was cut off
	w.pass(10 * time.Second)
	w.shared()
	assert.LessOrEqual(w, w.total()-before, 2*least)
}
