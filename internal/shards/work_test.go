package shards

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// busy is a worker that has been wished n shards. It counts at how many its decisions look.
type busy struct {
	*testing.T
	*Worker
	now time.Time
}

func newBusy(t *testing.T, n, moves int) *busy {
	b := &busy{t, NewWorker(n, Member{Weight: 1}, 10*time.Second, time.Second, moves), time.Unix(1_000_000, 0)}
	b.Joined(b.now)
	b.wished(1, n, 1)
	return b
}

// wished is a wish of the shards from from to to-1.
func (b *busy) wished(from, to int, mod int64) {
	var wish Set
	for i := from; i < to; i++ {
		wish.Add(i)
	}
	b.Wished(b.now, wish, mod)
}

// step is what follows each event.
func (b *busy) step() []Action {
	b.now = b.now.Add(time.Millisecond)
	all := b.Next(b.now)
	b.Offered()
	b.Member(b.now)
	b.Wake(b.now)
	return all
}

// takes is the start of a worker: each shard that is queued for is acquired, one after the other.
func (b *busy) takes() (events int) {
	for todo := b.step(); len(todo) > 0; todo = todo[1:] {
		if todo[0].Kind == Enqueue {
			b.Prepared(todo[0].Shard)
			todo = append(todo, b.step()...)
			b.Acquired(b.now, todo[0].Shard)
			todo = append(todo, b.step()...)
			events += 2
		}
	}
	return events
}

// gives is the end of all that is given up: each shard gets a waiter, and goes to it.
func (b *busy) gives(offered Set) (events int) {
	for i := range offered.All() {
		b.Waits(i, true)
		events++
		for todo := b.step(); len(todo) > 0; todo = todo[1:] {
			switch i := todo[0].Shard; todo[0].Kind {
			case Move:
				require.False(b, b.Returned(b.now, i))
			case Recheck:
				b.Rechecked(b.now, i, 3, true)
			case Release:
				b.Released(i)
			}
			todo = append(todo, b.step()...)
			events++
		}
	}
	return events
}

// What a worker looks at for one event does not grow with the number of its shards.
// rule: SH4
func TestAnEventCostsAWorkerTheSameWhateverItHas(t *testing.T) {
	for _, moves := range []int{0, 32} {
		for _, n := range []int{500, 5_000} {
			t.Run(fmt.Sprintf("%d shards, Moves %d", n, moves), func(t *testing.T) {
				b := newBusy(t, n, moves)
				each := 4 * max(moves, 1) // Next and Wake look at what is under way
				few := func(what string, events int) {
					t.Helper()
					assert.LessOrEqual(t, b.looked, each*(events+1)+n, what)
					b.looked = 0
				}
				few("start", b.takes())
				require.Equal(t, n-1, b.at.in[working].Len())

				for i := 1; i <= 100; i++ { // works fail
					b.Returned(b.now, i)
					b.step()
					b.Released(i)
					b.step()
				}
				few("failures", 200)
				b.now = b.now.Add(2 * minBar)
				few("after the failures", b.takes())

				b.wished(1, n/2, 2)
				few("another joins", b.gives(b.Offered()))
				b.wished(1, n, 4)
				few("it leaves", b.takes())
				b.Leave(b.now)
				few("leave", b.gives(b.Offered()))
				assert.True(t, b.Idle())
			})
		}
	}
}

// The same of a planner.
// rule: SH3
func TestAnEventCostsAPlannerTheSameWhateverThereIs(t *testing.T) {
	k, err := keys.NewShards("", "name")
	require.NoError(t, err)
	for _, n := range []int{500, 5_000} {
		now := time.Unix(1_000_000, 0)
		p := NewPlanner(NewView(k, n), "name", 10*time.Second, time.Second, now)
		p.Apply(now, Event{Key: k.Member(n, 1), Value: []byte(`{"weight":1}`), Create: 1, Mod: 1})
		p.Apply(now, Event{Key: k.Wish(1), Create: 2, Mod: 2})
		now = now.Add(time.Second)
		p.Tick(now)
		p.Wrote(now, p.Writes()[0], 3)
		for i := range n {
			now = now.Add(time.Millisecond / 4)
			rev := int64(4 + i)
			p.Apply(now, Event{Key: keys.QueueKey{Lease: 1, N: rev}.In(k.Queue(i).Prefix), Create: rev, Mod: rev})
			p.Tick(now)
			p.Said(0)
		}
		assert.LessOrEqual(t, p.looked, 5*n)
	}
}

// The wait before a shard is tried again grows from one failure to the next. Work that has run for a minute
// has it begin anew.
func TestAShardThatHasWorkedForAMinuteIsForgiven(t *testing.T) {
	for ran, want := range map[time.Duration]time.Duration{forgiven - time.Second: 4 * minBar, forgiven: minBar} {
		b := newBusy(t, 2, 0)
		for range 2 {
			b.step()
			b.Hindered(b.now, 1)
			b.now = b.now.Add(maxBar)
		}
		require.Equal(t, 2*minBar, b.bars[1].wait)
		b.takes()
		b.now = b.tasks[1].since.Add(ran)
		require.True(t, b.Returned(b.now, 1))
		assert.Equal(t, want, b.bars[1].wait, "it ran for %v", ran)
	}
}
