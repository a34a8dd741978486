//go:build linux

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
)

// rows are all comparisons.
var rows = []row{
	{"the holder is cut off, TTL 5 s", "how long it believes that it holds the lock while the next holder has it; the worst of five", "0 ms",
		func(b *bench, k kit) string {
			return worstOf(5, func() time.Duration { return doubleHold(b, k, (*faultproxy.Proxy).BlackHole, 0) })
		}},
	{"the holder is cut off, TTL 5 s, after answers that were 2 s late", "the same; the worst of three", "0 ms",
		func(b *bench, k kit) string {
			return worstOf(3, func() time.Duration {
				return doubleHold(b, k, (*faultproxy.Proxy).BlackHole, 2*time.Second)
			})
		}},
	{"an operator deletes the holder's key", "when the holder sees it", "after ", func(b *bench, k kit) string {
		op := b.operator()
		_, endpoints := b.network()
		h, err := k.client(b, endpoints).session(10*time.Second).lock(b.within(10*time.Second), "deleted")
		b.must(err)
		time.Sleep(time.Second)
		_, err = op.Delete(b.within(10*time.Second), h.key())
		b.must(err)
		return after(waitFor(15*time.Second, h.lost))
	}},
	{"a waiter's lease is revoked", "when its call returns", "after ", func(b *bench, k kit) string {
		op := b.operator()
		_, endpoints := b.network()
		c := k.client(b, endpoints)
		_, err := c.session(10*time.Second).lock(b.within(10*time.Second), "revoked")
		b.must(err)
		waiter := c.session(10 * time.Second)
		done := make(chan struct{})
		go func() { // ends with its context
			defer close(done)
			_, _ = waiter.lock(b.within(20*time.Second), "revoked")
		}()
		waitFor(10*time.Second, func() bool { return b.keys(op, "revoked") == 2 })
		_, err = op.Revoke(b.within(10*time.Second), clientv3.LeaseID(waiter.id()))
		b.must(err)
		return after(waitFor(15*time.Second, func() bool { return closed(done) }))
	}},
	{"readers and writers (RWMutex of the recipes): a waiting writer's lease is revoked, and the writer before it releases",
		"how many of the two that waited hold it at once", "1: ", writersAtOnce},
	{"an acquisition times out while answers are lost", "keys left in the queue after 3 s, of 5", "0", ghosts},
	{"a waiting candidate's key is deleted; then the leader resigns", "whether the campaign reports that it won without a key in etcd", "no: ", phantom},
	{"the command that runs a child is cut off, TTL 5 s", "how long the child runs after the lock's key is gone", "0 ms: ", childAfterLoss},
	{"two lockers share one session", "how many hold at once", "1", func(b *bench, k kit) string {
		_, endpoints := b.network()
		s := k.client(b, endpoints).session(10 * time.Second)
		n := 0
		for range 2 {
			if _, err := s.lock(b.within(2*time.Second), "shared"); err == nil {
				n++
			}
		}
		return fmt.Sprint(n)
	}},
	{"somebody holds name/nested", "whether name can be locked", "yes", func(b *bench, k kit) string {
		_, endpoints := b.network()
		c := k.client(b, endpoints)
		_, err := c.session(10*time.Second).lock(b.within(10*time.Second), "outer/nested")
		b.must(err)
		if _, err = c.session(10*time.Second).lock(b.within(3*time.Second), "outer"); err != nil {
			return "no"
		}
		return "yes"
	}},
	{"one member of three is paused for 12 s, TTL 10 s", "sessions lost, of 12", "0", func(b *bench, k kit) string {
		var all []session
		for range 12 {
			_, endpoints := b.network()
			all = append(all, k.client(b, endpoints).session(10*time.Second))
		}
		time.Sleep(4 * time.Second)
		m := b.c.Follower(b.t)
		m.Pause(b.t)
		time.Sleep(12 * time.Second)
		m.Resume(b.t)
		time.Sleep(time.Second)
		n := 0
		for _, s := range all {
			if s.over() {
				n++
			}
		}
		return fmt.Sprint(n)
	}},
	{"sets, unfenced: three processes add, a holder is paused every 5 s", "additions that were confirmed and lost, of all confirmed", "",
		func(b *bench, k kit) string { return sets(b, k, false) }},
	{"sets, fenced: the same, and the storage checks tokens", "the same", "0 of ",
		func(b *bench, k kit) string {
			if k.name() != (ours{}).name() {
				return "has no token"
			}
			return sets(b, k, true)
		}},
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func worstOf(n int, f func() time.Duration) string {
	var worst time.Duration
	for range n {
		worst = max(worst, f())
	}
	return fmt.Sprintf("%d ms", worst.Milliseconds())
}

// doubleHold makes one client hold the lock and another wait for it, cuts the first one's
// network, and returns for how long both believe that they hold it.
func doubleHold(b *bench, k kit, cut func(*faultproxy.Proxy), late time.Duration) time.Duration {
	const ttl = 5 * time.Second
	name := fmt.Sprintf("cut-%d", time.Now().UnixNano())
	net, endpoints := b.network()
	h, err := k.client(b, endpoints).session(ttl).lock(b.within(20*time.Second), name)
	b.must(err)
	lost := make(chan time.Time, 1)
	go func() { // ends within its limit
		waitFor(60*time.Second, h.lost)
		lost <- time.Now()
	}()
	_, clear := b.network()
	waiter := k.client(b, clear).session(ttl)
	got := make(chan time.Time, 1)
	go func() { // ends with its context
		other, err := waiter.lock(b.within(40*time.Second), name)
		if err == nil {
			got <- time.Now()
			_ = other.release(b.within(10 * time.Second))
		}
		close(got)
	}()
	net.each(func(p *faultproxy.Proxy) { p.SetDelay(0, late) })
	time.Sleep(ttl)
	net.each(cut)
	at, ok := <-got
	reported := <-lost
	if !ok {
		panic("the waiter never got the lock")
	}
	return max(0, reported.Sub(at))
}

// writersAtOnce makes two writers wait for a third, revokes the lease of the first of them,
// lets the third release, and counts the holders.
func writersAtOnce(b *bench, k kit) string {
	op := b.operator()
	name := fmt.Sprintf("writers-%d", time.Now().UnixNano())
	_, endpoints := b.network()
	c := k.client(b, endpoints)
	third, err := c.session(10*time.Second).write(b.within(10*time.Second), name)
	b.must(err)
	var waiters []session
	won, failed := make(chan held, 2), make(chan error, 2)
	for i := range 2 {
		s := c.session(10 * time.Second)
		waiters = append(waiters, s)
		go func() { // ends once the name is free, or with this process
			h, err := s.write(b.within(30*time.Second), name)
			if err != nil {
				failed <- err
				return
			}
			won <- h
		}()
		if _, ok := waitFor(10*time.Second, func() bool { return b.keys(op, name) == int64(i)+2 }); !ok {
			panic("a waiter's key never came")
		}
	}
	_, err = op.Revoke(b.within(10*time.Second), clientv3.LeaseID(waiters[0].id()))
	b.must(err)
	if _, ok := waitFor(10*time.Second, func() bool { return b.keys(op, name) == 2 }); !ok {
		panic("the revoked lease's key never went")
	}
	b.must(third.release(b.within(10 * time.Second)))
	waitFor(10*time.Second, func() bool { return len(won)+len(failed) == 2 })
	text := fmt.Sprintf("%d: with %d key in etcd", len(won), b.keys(op, name))
	if len(failed) > 0 {
		text += "; the other got an error"
	}
	return text
}

// ghosts makes acquisitions time out while their answers are lost, and counts what they leave
// behind while their session lives.
func ghosts(b *bench, k kit) string {
	op := b.operator()
	name := fmt.Sprintf("ghost-%d", time.Now().UnixNano())
	var ready, wg sync.WaitGroup
	var nets []network
	var sessions []session
	for range 5 {
		net, endpoints := b.network()
		nets = append(nets, net)
		sessions = append(sessions, k.client(b, endpoints).session(30*time.Second))
	}
	for i, s := range sessions {
		ready.Add(1)
		wg.Go(func() { // ends with its context
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			nets[i].each((*faultproxy.Proxy).HoldAnswers)
			ready.Done()
			_, _ = s.lock(ctx, fmt.Sprintf("%s-%d", name, i))
		})
	}
	ready.Wait()
	time.Sleep(1500 * time.Millisecond)
	for _, n := range nets {
		n.each((*faultproxy.Proxy).Heal)
	}
	wg.Wait()
	time.Sleep(3 * time.Second)
	n := int64(0)
	for i := range sessions {
		n += b.keys(op, fmt.Sprintf("%s-%d", name, i))
	}
	return fmt.Sprint(n)
}
