package registry

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// system is one client, pawld and etcd, each with a separate clock, in real time. Its oracle is
// that no client believes beyond its key.
type system struct {
	*Registry
	begin  clock.Instant
	now    time.Duration // real
	pawld  float64       // rates of the clocks
	client float64
	leader float64
	lines  []string // what happened

	from    time.Duration // pawld runs since
	renewed time.Duration // its lease
	engine  error         // how its session ended
	kept    clock.Instant // what was promised

	n        int           // of the lock
	there    bool          // its key is, since the last win
	removed  time.Duration // when it went
	validity time.Duration // when the client's ends
	maxHold  time.Duration
	ttl      time.Duration // that the client sends
}

const (
	granted = 30 * time.Second
	never   = time.Duration(math.MaxInt64)
)

func newSystem(rates int) *system {
	const rho = 1.0 / 11
	rate := func(i int) float64 { return 1 + rho*float64(i%3-1) }
	w := &system{begin: clock.Now(), pawld: rate(rates), client: rate(rates / 3), leader: rate(rates / 9), ttl: time.Duration(rates/27%2) * 4 * time.Second, now: time.Second, from: time.Second, renewed: time.Second}
	w.Registry = New(cfg, w.clock(w.now))
	return w
}

// clock is what pawld's shows at a real time.
func (w *system) clock(real time.Duration) clock.Instant {
	return w.begin.Add(time.Duration(float64(real) * w.pawld))
}

// Until implements Holding (T2).
func (w *system) Until() clock.Instant {
	if w.dead() != nil {
		return clock.Instant{}
	}
	return w.clock(w.renewed).Add(granted - granted/6)
}

func (w *system) dead() error {
	if w.engine == nil && !w.clock(w.now).Before(w.clock(w.renewed).Add(granted-granted/6)) {
		w.engine = errors.New("session expired")
	}
	return w.engine
}

// Promise implements Holding.
func (w *system) Promise(until clock.Instant) error {
	if err := w.dead(); err != nil {
		return err
	}
	if w.kept.Before(until) {
		w.kept = until
	}
	return nil
}

func (w *system) ref() Ref { return Ref{id, strconv.Itoa(w.n)} }

// remove is that the key goes at a real time.
func (w *system) remove(at time.Duration) {
	if w.there {
		w.there, w.removed = false, at
	}
}

// check is the oracle.
func (w *system) check() error {
	w.carry()
	if expiry := w.renewed + time.Duration(float64(granted)/w.leader); w.there && w.engine != nil {
		// nobody renews: the server ends it, or pawld does, after what it promised
		at := min(expiry, max(w.now, time.Duration(float64(w.kept.Sub(w.begin))/w.pawld)))
		if w.kept == (clock.Instant{}) {
			at = w.now
		}
		w.remove(at)
	}
	if !w.there && w.validity > w.removed+10 { // floating point
		return fmt.Errorf("at %v the client believes until %v, the key went at %v", w.now, w.validity, w.removed)
	}
	return nil
}

// carry carries effects out.
func (w *system) carry() {
	for _, fx := range w.Effects() {
		if fx.Kind != Leave && fx.Ref == w.ref() {
			w.remove(w.now)
		}
	}
}

// step is one thing that happens. a and b are anything.
func (w *system) step(op, a, b byte) {
	delay := time.Duration(b) * 60 * ms // up to 15 s
	arrival := max(w.now-delay, w.from)
	sent := max(arrival-time.Duration(b%7)*ms, 0)
	at, now := w.clock(arrival), w.clock(w.now)
	w.lines = append(w.lines, fmt.Sprintf("%v: op %d, arrival %v", w.now, op%10, arrival))
	switch op % 10 {
	case 0, 1: // Acquire
		if w.Open(id, who, w.ttl, at, now) == nil {
			fresh, err := w.Acquire(w.ref(), Params{MaxHold: w.maxHold}, most, at, now)
			if err != nil { // ended: the next one
				w.next(a)
			} else if !fresh || w.engine == nil && w.win(now) {
				w.answered(sent, at, now)
			}
		}
	case 2, 3: // Renew
		if w.Touch(id, who, at, now) == nil {
			w.answered(sent, at, now)
		}
	case 4: // Release, before which the client stops believing
		if a%4 == 0 && w.OpenForRelease(id, who, at, now) == nil {
			w.validity = min(w.validity, sent)
			if st, _ := w.Release(w.ref(), now); st == Releasing {
				w.remove(w.now)
				w.Released(w.ref(), nil)
			}
		}
	case 5: // the engine renews
		if w.dead() == nil {
			w.renewed = w.now
		}
	case 6: // its session ends, whatever the reason, and another begins
		if a%8 == 0 {
			if w.engine == nil {
				w.engine = errors.New("ended")
			}
			w.Lose(w.ref(), w.engine, now)
		}
	case 7: // a restart, in which the lease is taken over
		if a%8 == 0 && w.dead() == nil {
			saved := w.Save(now)
			w.carry()
			w.now += delay / 8
			w.renewed, w.from = w.now, w.now
			w.Registry = New(cfg, w.clock(w.now))
			w.Restore(saved, w.clock(w.now))
		}
	case 8: // a stall
		w.now += time.Duration(a) * 40 * ms
	case 9: // time passes, watched
		for end := w.now + time.Duration(a)*20*ms; w.now < end; w.now = min(end, w.now+w.Beat()) {
			w.Tick(w.clock(w.now))
			w.carry()
		}
	}
}

// next makes a new acquisition the next one, on a session of the engine that lives.
func (w *system) next(a byte) {
	if w.there || w.validity > w.now {
		return
	}
	w.n++
	w.maxHold = time.Duration(a%3) * 4 * time.Second
	if w.engine != nil {
		w.engine, w.kept, w.renewed = nil, clock.Instant{}, w.now
	}
}

func (w *system) win(now clock.Instant) bool {
	if !w.Won(w.ref(), w, now) {
		return false
	}
	w.there, w.removed, w.validity = true, never, 0
	return true
}

// answered is what the client makes of an answer to what it sent (rule V3).
func (w *system) answered(sent time.Duration, arrival, now clock.Instant) {
	l, ok := w.One(w.ref(), arrival, now)
	if ok && l.State == Held {
		w.validity = max(w.validity, sent+time.Duration(float64(l.Valid)/w.client))
	}
	if !ok || l.State != Held && l.State != Waiting {
		w.next(byte(w.n))
	}
}

// run plays data, and returns what is wrong.
func run(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	w := newSystem(int(data[0]))
	for data = data[1:]; len(data) >= 3; data = data[3:] {
		w.step(data[0], data[1], data[2])
		if err := w.check(); err != nil {
			return fmt.Errorf("%w\n%v", err, w.lines)
		}
	}
	return nil
}

// No validity goes beyond its key, whatever arrivals, late handling, stalls, ends of the
// engine's session and restarts there are, on clocks whose rates differ by a fifth.
// rule: V1
func FuzzNoValidityGoesBeyondItsKey(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 9, 200, 0, 2, 0, 50})
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := run(data); err != nil {
			t.Fatal(err)
		}
	})
}

// The same, at random, so that every run of the tests looks at some thousand histories.
func TestNoValidityGoesBeyondItsKeyAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(testscale.Seed(t), 0))
	data := make([]byte, 1+3*200)
	for range testscale.Of(2000, 20_000) {
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		if err := run(data); err != nil {
			t.Fatal(err)
		}
	}
}
