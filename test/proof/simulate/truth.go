package simulate

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// life is one key of a queue, from its creation to its deletion.
type life struct {
	key      string
	name     string // of the queue
	shared   bool
	form     keys.QueueKey
	created  int64
	from     time.Duration
	to       time.Duration // -1 if it still exists
	first    time.Duration // when the last earlier key that excludes it was deleted, or -1
	meddled  time.Duration // when an operator did something to it, or -1
	deletion int64
	expired  bool // by its lease's expiry, or nobody knows why
	// overwritten is set if the operator's action left the key's position unchanged.
	overwritten bool
}

// truth is the history of every key, as the server knows it.
type truth struct {
	now func() time.Duration

	mu     sync.Mutex
	lives  []*life
	living map[string]*life
	terms  map[acquired]*agreement
	ended  map[int64]end // by lease, when the session ended, unless another took it over
	stale  []span        // when a member answered linearizable reads with what it saw before
}

// A span is a time with a beginning and an end.
type span struct{ from, to time.Duration }

// answeredStale records that a member's linearizable reads were stale. No read then shows what an
// operator did, and pawl renews through reads.
func (t *truth) answeredStale(from, to time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stale = append(t.stale, span{from, to})
	slices.SortFunc(t.stale, func(a, b span) int { return int(a.from - b.from) })
}

// visible is the time after which every read shows what was done at at. The caller holds t.mu.
func (t *truth) visible(at time.Duration) time.Duration {
	for _, s := range t.stale {
		if s.from <= at && at < s.to {
			at = s.to
		}
	}
	return at
}

func newTruth(now func() time.Duration) *truth {
	return &truth{now: now, living: map[string]*life{}, terms: map[acquired]*agreement{}, ended: map[int64]end{}}
}

// semaphore is a semaphore's queue. A lock of the same name has a separate one.
func semaphore(name string) string { return keys.SemaphoreRoot("") + name }

// queueOf is the queue that a key is in, if it is one of the scenario's.
func queueOf(key string) (queue string, ok bool) {
	if k := teamKeys(); strings.HasPrefix(key, k.Prefix) {
		at := k.Parse(key)
		return k.Queue(at.Shard).Name, at.Kind == keys.ShardsQueue && at.Lease != 0
	}
	below, slotted := strings.CutPrefix(key, keys.SemaphoreRoot(""))
	name, _, queued := strings.Cut(below, "/")
	if slotted {
		return semaphore(name), queued && slices.Contains(names, name)
	}
	return name, queued && slices.Contains(names, name)
}

// put records that a key was written.
func (t *truth) put(key string, create int64, created, byOperator bool) {
	name, queued := queueOf(key)
	if !queued {
		return
	}
	form, _ := keys.ParseQueueKey(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if created {
		l := &life{key: key, name: name, shared: form.Form == keys.Shared, form: form, created: create, from: t.now(), to: -1, meddled: -1}
		t.lives, t.living[key] = append(t.lives, l), l
	} else if l := t.living[key]; l != nil && byOperator && l.meddled < 0 {
		l.meddled, l.overwritten = t.now(), true
	}
}

// gone records that a key was deleted, and why.
func (t *truth) gone(key string, rev int64, why etcd.Cause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.living[key]
	if l == nil {
		return
	}
	delete(t.living, key)
	l.expired = why == etcd.ByExpiry
	if l.to, l.deletion = t.now(), rev; why == etcd.ByOperator && (l.meddled < 0 || l.overwritten) {
		l.meddled, l.overwritten = l.to, false
	}
}

// meddle records that an operator is about to do something to a key, which may keep its
// position.
func (t *truth) meddle(key string, overwrites bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.living[key]; l != nil && (l.meddled < 0 || l.overwritten && !overwrites) {
		l.meddled, l.overwritten = t.now(), overwrites
	}
}

// at returns the keys that exist.
func (t *truth) at() (keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.living {
		keys = append(keys, l.key)
	}
	slices.Sort(keys)
	return keys
}

// order computes when each key was the first of those that exclude it. For an exclusive key those
// are all, for a shared one all but shared ones, and for a slot's key those of its slot.
func (t *truth) order() {
	type head struct {
		gone  time.Duration // when the last of them was deleted
		stays bool          // one still exists
	}
	type queue struct{ any, exclusive head }
	queues := map[string]*queue{}
	slots := map[string]head{}
	for _, l := range t.lives {
		if l.form.Form == keys.Slot {
			of := fmt.Sprint(l.name, "/", l.form.Slot)
			before := slots[of]
			if l.first = max(before.gone, l.from); before.stays {
				l.first = -1
			}
			slots[of] = head{max(before.gone, l.to), before.stays || l.to < 0}
		}
		q := queues[l.name]
		if q == nil {
			q = &queue{}
			queues[l.name] = q
		}
		before := q.any
		if l.shared {
			before = q.exclusive
		}
		if l.form.Form != keys.Slot {
			if l.first = max(before.gone, l.from); before.stays || l.form.Form == keys.Turnstile {
				l.first = -1
			}
		}
		q.any = head{max(q.any.gone, l.to), q.any.stays || l.to < 0}
		if !l.shared {
			q.exclusive = head{max(q.exclusive.gone, l.to), q.exclusive.stays || l.to < 0}
		}
	}
}

// acquired is an acquisition in a queue. Those in two queues may have one token.
type acquired struct {
	queue string
	token int64
}

// acquiredBy is the acquisition that an operation is about.
func acquiredBy(o history.Op) acquired {
	if o.Slot > 0 {
		return acquired{semaphore(o.Name), o.Token}
	}
	return acquired{o.Name, o.Token}
}

// together returns which keys of one acquisition of several names were not put at once. A session
// never uses a number twice.
func (t *truth) together() (bad []string) {
	first := map[string]*life{}
	for _, l := range t.lives {
		if l.form.Form == keys.Turnstile || l.form.Form == keys.Slot {
			continue // a key for the turnstile, and then one for the slot
		}
		number := strings.TrimPrefix(l.key[len(l.name)+1:], "+")
		if other := first[number]; other == nil {
			first[number] = l
		} else if other.created != l.created {
			bad = append(bad, fmt.Sprintf("%s was put at %d, and %s at %d", other.key, other.created, l.key, l.created))
		}
	}
	return bad
}

// wronglyPut returns which keys were put wrongly: in a slot that was taken, or with more holders
// than one of them allows (rules SM1, SM3).
func (t *truth) wronglyPut() (bad []string) {
	living := map[string][]*life{}
	for _, l := range t.lives {
		list := slices.DeleteFunc(living[l.name], func(other *life) bool { return other.deletion > 0 && other.deletion <= l.created })
		held, least := 1, l.form.Limit
		for _, other := range list {
			if other.form.Form != keys.Slot {
				continue
			}
			held, least = held+1, min(least, other.form.Limit)
			if l.form.Form == keys.Slot && other.form.Slot == l.form.Slot {
				bad = append(bad, fmt.Sprintf("%s was put at %d into the slot of %s", l.key, l.created, other.key))
			}
		}
		if l.form.Form == keys.Slot && held > least {
			bad = append(bad, fmt.Sprintf("%s was put at %d as one of %d, where at most %d may hold", l.key, l.created, held, least))
		}
		living[l.name] = append(list, l)
	}
	return bad
}

// validate compares what clients learned with the truth, and returns what was wrong, and the
// history without what an operator's action explains.
func (t *truth) validate(ops []history.Op, ttl time.Duration) (bad []string, rest []history.Op) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.order()
	lives := map[acquired]*life{}
	for _, l := range t.lives {
		lives[acquired{l.name, l.created}] = l
	}
	bad = append(t.together(), t.wronglyPut()...)
	released := map[acquired]time.Duration{}
	for _, o := range ops {
		of := acquiredBy(o)
		if at, ok := released[of]; o.Kind == history.Release && (!ok || o.Call < at) {
			released[of] = o.Call
		}
	}
	wrong := func(o history.Op, l *life, what string) {
		bad = append(bad, fmt.Sprintf("%s: %v; the key was there from %v to %v, first from %v on, meddled with at %v",
			what, o, l.from, l.to, l.first, l.meddled))
	}
	for _, o := range ops {
		of := acquiredBy(o)
		l := lives[of]
		asserts := o.Outcome == history.OK && (o.Kind == history.Look || o.Kind == history.Acquire || o.Kind == history.Release)
		if !asserts {
			rest = append(rest, o)
			continue
		}
		if l == nil {
			bad = append(bad, fmt.Sprintf("a token that is no key's create revision: %v", o))
			continue
		}
		call := o.Call
		if o.Kind == history.Release {
			call = released[of] // called again, it continues what the first call began
		}
		meddled := l.meddled >= 0 && o.Return >= l.meddled
		if l.overwritten && l.meddled <= l.first {
			meddled = false // while it waited, so it did not hold yet
		}
		known := strings.HasPrefix(l.name, teamKeys().Prefix) // what work learns when it begins was so before
		switch {
		case l.first < 0 || o.Return < l.first:
			wrong(o, l, "held before it was first")
		case meddled && call > t.visible(l.meddled)+ttl+history.Grace:
			wrong(o, l, "held long after an operator ended it")
		case meddled && (o.Kind != history.Acquire || known):
			continue // learned late, which is allowed
		case (o.Kind == history.Look || known) && l.to >= 0 && o.Call > l.to:
			wrong(o, l, "held when the key was gone")
		case o.Kind == history.Release && (t.leaves(of, l, o) || l.to >= 0 && l.to < released[of]):
			wrong(o, l, "a release that released nothing")
		}
		rest = append(rest, o)
	}
	return bad, rest
}
