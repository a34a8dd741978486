package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// follow waits for p from now on, which an answer at revision rev showed.
func (c *Claim) follow(p place, rev int64) {
	c.mu.Lock()
	old := c.ahead.w
	c.before, c.passed, c.expected, c.goneAt, c.ahead = p, false, false, 0, feed{}
	c.mu.Unlock()
	if old != nil {
		old.Cancel()
	}
	if _, ok := c.line.owner(p.key); !ok {
		c.s.Host().Cluster.Logger().Warn("waiting for a key that is not pawl's", "name", c.line.Name, "key", p.key, "create_revision", p.create)
	}
	c.watchAhead(p, rev+1)
}

// watchAhead watches the key before the own one from revision from on.
func (c *Claim) watchAhead(p place, from int64) {
	w := c.s.Host().Watches.WatchDeletion(p.key, from, func(u watcher.Update) { c.aheadChanged(p, u) })
	c.keep(w, &c.ahead, func() bool { return c.before == p })
}

// watchOwn watches the own key from revision from on.
func (c *Claim) watchOwn(from int64) {
	w := c.s.Host().Watches.Watch(c.key, "", from, c.ownChanged)
	c.keep(w, &c.own, func() bool { return true })
}

// keep makes w the watch of f, unless it is not wanted any more.
func (c *Claim) keep(w *watcher.Watch, f *feed, wanted func() bool) {
	c.mu.Lock()
	ok := c.fate.Load() == nil && f.w == nil && wanted()
	if ok {
		f.w = w
	}
	c.mu.Unlock()
	if !ok {
		w.Cancel()
	}
}

// aheadChanged is called with the deletion of the key before. Puts on it change
// nothing and are not watched: an election's leader writes its value, and a lock's
// key is granted to. The grant, in what was deleted, tells whom the key before
// granted to when it was released.
func (c *Claim) aheadChanged(p place, u watcher.Update) {
	c.mu.Lock()
	if c.before == p {
		for _, ev := range u.Events {
			if ev.Deleted {
				c.passed, c.expected = true, c.expected || !c.mine && c.expects(ev)
				c.goneAt = ev.ModRevision
			}
		}
		c.ahead.over = c.ahead.over || u.Err != nil || u.Compacted > 0
		// Compacted: what was missed is asked for, the place is kept (A4).
		c.passed = c.passed || u.Compacted > 0
	}
	c.mu.Unlock()
	c.wake()
}

// ownChanged is called with every change of the own key.
func (c *Claim) ownChanged(u watcher.Update) {
	for _, ev := range u.Events {
		switch {
		case ev.Deleted:
			c.deleted()
		case !c.written(ev):
			c.overwritten(ev.ModRevision)
		}
	}
	if u.Err != nil || u.Compacted > 0 {
		c.mu.Lock()
		c.own.over = true
		c.mu.Unlock()
	}
}

// overwritten ends the claim because somebody else wrote to its key, at revision
// mod, and has the key removed.
func (c *Claim) overwritten(mod int64) {
	f := c.mark()
	if f == nil {
		return
	}
	f.decide(&detail{ErrKeyOverwritten, fmt.Sprintf("%q at revision %d", c.key, mod)})
	c.s.Reopen(c.n, c.key)
	c.s.Host().Behind.Go("overwritten key "+c.key, c.removeOverwritten)
}

// removeOverwritten deletes the own key after somebody else wrote to it. It
// outlives the session: that key may not be on its lease any more, so nothing
// else would take it out of the line. Work that spares the lease spares the key.
func (c *Claim) removeOverwritten(ctx context.Context) {
	if !c.s.AwaitSparing(ctx) {
		return
	}
	for pause := 100 * time.Millisecond; !(&undo{c}).Remove(ctx); pause = min(2*pause, 2*time.Second) {
		t := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-t.C:
		case <-ctx.Done():
		case <-c.s.Host().Cluster.Ended():
		}
		t.Stop()
		if ctx.Err() != nil || c.s.Host().Cluster.Err() != nil {
			return
		}
	}
}

// Saw implements session.Claim: what the session's linearizable read at revision
// rev showed of the own key and the one before it. It finds what a watch missed,
// and makes anew a watch that is over.
func (c *Claim) Saw(rev int64, own, before session.Seen) {
	if c.fate.Load() != nil || rev < c.create {
		return
	}
	c.mu.Lock()
	known := c.mod
	// A write of ours, or a grant, of which nothing is known yet.
	writing := len(c.writing) > 0 || c.grants && c.woken != nil
	p, passed := c.before, false
	if p.key != "" && before.Create != p.create {
		c.passed, passed = true, true
	}
	ownAgain := c.own.over
	aheadAgain := c.ahead.over && !passed && p.key != ""
	if ownAgain {
		c.own = feed{}
	}
	if aheadAgain {
		c.ahead = feed{}
	}
	c.mu.Unlock()

	switch {
	case own.Create != c.create:
		c.deleted()
		return
	case own.Mod > known && !writing:
		c.overwritten(own.Mod)
		return
	case own.Mod > known: // ours, or not: its value tells
		c.settleBehind()
	}
	if passed {
		c.wake()
	}
	if ownAgain {
		c.watchOwn(rev + 1)
	}
	if aheadAgain {
		c.watchAhead(p, rev+1)
	}
}

// Arm implements session.Claim: it is held for longer than a moment, so its key is
// watched, from its own revision on.
func (c *Claim) Arm() {
	if c.fate.Load() == nil {
		c.watchOwn(c.create + 1)
	}
}
