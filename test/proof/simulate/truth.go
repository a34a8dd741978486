package simulate

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/test/proof/history"
)

// life is one key of the line, from its creation to its deletion.
type life struct {
	key      string
	created  int64
	from     time.Duration
	to       time.Duration // -1: it is still there
	meddled  time.Duration // when an operator did something to it; -1: never
	deletion int64
	// overwritten: what the operator did left the key where it was.
	overwritten bool
}

// truth is what became of every key, as the server tells it.
type truth struct {
	prefix string
	now    func() time.Duration

	mu     sync.Mutex
	lives  []*life
	living map[string]*life
}

func newTruth(prefix string, now func() time.Duration) *truth {
	return &truth{prefix: prefix, now: now, living: map[string]*life{}}
}

// put notes that a key was written.
func (t *truth) put(key string, create int64, created, byOperator bool) {
	if !strings.HasPrefix(key, t.prefix) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if created {
		l := &life{key: key, created: create, from: t.now(), to: -1, meddled: -1}
		t.lives, t.living[key] = append(t.lives, l), l
	} else if l := t.living[key]; l != nil && byOperator && l.meddled < 0 {
		l.meddled, l.overwritten = t.now(), true
	}
}

// gone notes that a key was deleted.
func (t *truth) gone(key string, rev int64, byOperator bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.living[key]
	if l == nil {
		return
	}
	delete(t.living, key)
	if l.to, l.deletion = t.now(), rev; byOperator && (l.meddled < 0 || l.overwritten) {
		l.meddled, l.overwritten = l.to, false
	}
}

// meddle notes that an operator is about to do something to a key, which may
// leave it where it is.
func (t *truth) meddle(key string, overwrites bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.living[key]; l != nil && (l.meddled < 0 || l.overwritten && !overwrites) {
		l.meddled, l.overwritten = t.now(), overwrites
	}
}

// at tells which keys there are.
func (t *truth) at() (keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.living {
		keys = append(keys, l.key)
	}
	slices.Sort(keys)
	return keys
}

// judge compares what clients were told with the truth, and returns what was not
// so, and the history without what an operator's doing explains.
func (t *truth) judge(ops []history.Op, ttl time.Duration) (bad []string, rest []history.Op) {
	t.mu.Lock()
	defer t.mu.Unlock()
	byToken, first := map[int64]*life{}, map[int64]time.Duration{}
	var head time.Duration // when the last of all keys before was gone
	var stays bool         // one before is still there
	for _, l := range t.lives {
		byToken[l.created] = l
		if first[l.created] = max(head, l.from); stays {
			first[l.created] = -1
		}
		if stays = stays || l.to < 0; !stays {
			head = max(head, l.to)
		}
	}
	released := map[int64]time.Duration{}
	for _, o := range ops {
		if at, ok := released[o.Token]; o.Kind == history.Release && (!ok || o.Call < at) {
			released[o.Token] = o.Call
		}
	}
	wrong := func(o history.Op, l *life, what string) {
		bad = append(bad, fmt.Sprintf("%s: %v; the key was there from %v to %v, first from %v on, meddled with at %v",
			what, o, l.from, l.to, first[l.created], l.meddled))
	}
	for _, o := range ops {
		l := byToken[o.Token]
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
			call = released[o.Token] // called again, it goes on with what the first call began
		}
		meddled := l.meddled >= 0 && o.Return >= l.meddled
		if l.overwritten && l.meddled <= first[l.created] {
			meddled = false // while it waited: nobody was told to hold yet
		}
		switch {
		case first[l.created] < 0 || o.Return < first[l.created]:
			wrong(o, l, "told to hold before it was first")
		case meddled && call > l.meddled+ttl+history.Grace:
			wrong(o, l, "told to hold long after an operator ended it")
		case meddled && o.Kind != history.Acquire:
			continue // told late, as is allowed
		case o.Kind == history.Look && l.to >= 0 && o.Call > l.to:
			wrong(o, l, "told to hold when the key was gone")
		case o.Kind == history.Release && (l.to < 0 || l.to > o.Return || l.to < released[o.Token]):
			wrong(o, l, "a release that released nothing")
		}
		rest = append(rest, o)
	}
	return bad, rest
}
