package shards

import (
	"time"
)

// When a planner plans because of loads alone.
const (
	atOnce      = 1.30            // a worker above this part of its limit is a reason at once; above edgeUp after a TTL
	quietFor    = 2 * time.Second // for how long no report must have come
	waitFor     = 8 * time.Second // the longest wait for that; at most a TTL
	coolFor     = 4               // TTLs for which a shard stays that has moved for its load, and for which a new owner is not believed
	maxCool     = time.Hour
	perThird    = 3 // of a TTL: the first pause after a plan for loads alone
	maxLoadWait = 4 * time.Minute
	calmFor     = 10 * time.Minute // after which the pause is short again
)

// weighing is what a planner remembers of loads.
type weighing struct {
	began    time.Time           // when it first looked
	believed map[int]float64     // by shard, what an owner that had it for long enough told last
	outside  map[int64]time.Time // since when members have been outside of the outer band
	cool     map[int]coolness
	nextAt   time.Time // when to look next
	reportAt time.Time // the last report
	firstAt  time.Time // the first of those that came after a pause
	evenedAt time.Time // the last plan for loads alone
	pause    time.Duration
	busy     int       // how many moves were under way at the last look
	busyAt   time.Time // since when there have been as many
}

// coolness keeps a shard where it is.
type coolness struct {
	until time.Time
	span  time.Duration
}

func newWeighing() weighing {
	return weighing{believed: map[int]float64{}, outside: map[int64]time.Time{}, cool: map[int]coolness{}}
}

// reported records that a member tells other loads.
func (p *Planner) reported(now time.Time) {
	if now.Sub(p.reportAt) >= quietFor {
		p.firstAt = now
	}
	p.reportAt = now
	if at := now.Add(quietFor); p.nextAt.IsZero() || at.Before(p.nextAt) {
		p.nextAt = at
	}
}

// tells reports whether any member tells loads.
func (p *Planner) tells() bool {
	for _, m := range p.View.Members {
		if m.Told.Any() {
			return true
		}
	}
	return false
}

// loads are the loads of all shards, or nil if no member tells any. A shard's load is what its owner
// tells, if it has had the shard for long enough for its caches to be warm. Otherwise it is what was told
// before the shard moved, and, if nothing was, the mean of what is known.
func (p *Planner) loads(now time.Time) []float64 {
	if !p.tells() {
		return nil
	}
	all := make([]float64, p.View.N)
	var unknown []int
	sum := 0.0
	for i := range all {
		p.looked++
		owner := p.View.first(i)
		if at, took := p.took[i]; owner != 0 && !(took && at.lease == owner && now.Sub(at.since) < coolFor*p.TTL) {
			delete(p.believed, i)
			if m := p.View.Members[owner]; m != nil {
				if x, told := m.Told.Of(i); told {
					p.believed[i] = x
				}
			}
		}
		x, known := p.believed[i]
		if !known {
			unknown = append(unknown, i)
		}
		all[i] = x
		sum += x
	}
	for _, i := range unknown {
		all[i] = 1
		if known := len(all) - len(unknown); known > 0 {
			all[i] = sum / float64(known)
		}
	}
	return all
}

// weigh looks at the loads from time to time, and plans if they are uneven.
func (p *Planner) weigh(now time.Time) (planned bool) {
	if p.nextAt.IsZero() || now.Before(p.nextAt) {
		return false
	}
	p.nextAt = now.Add(p.TTL / watchEach)
	s := p.situation(now)
	if s.loads == nil {
		p.nextAt = time.Time{} // the next report begins it again
		clear(p.outside)
		return false
	}
	uneven := p.compare(now, s)
	switch quiet := earlier(p.reportAt.Add(quietFor), p.firstAt.Add(min(waitFor, p.TTL))); {
	case p.moving(now) || len(p.pending) > 0 || now.Sub(p.began) < coolFor*p.TTL:
		return false
	case now.Before(quiet):
		p.nextAt = earlier(p.nextAt, quiet)
		return false
	case !uneven || now.Sub(p.evenedAt) < p.pause:
		return false
	}
	b := ByLoad{Load: s.loads, Cool: p.cooling(now)}
	to := b.Plan(p.Name, s.all, s.owners, s.light, s.rest)
	if b.Moved.Len() == 0 { // it is as even as the shards allow
		p.nextAt = now.Add(p.TTL / perThird)
		return false
	}
	p.evened(now, b.Moved)
	p.wish(s, to)
	return true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// cooling are the shards that do not move for their load. It forgets what was long ago.
func (p *Planner) cooling(now time.Time) (cool Set) {
	for i, c := range p.cool {
		switch {
		case now.Before(c.until):
			cool.Add(i)
		case now.Sub(c.until) >= maxCool:
			delete(p.cool, i)
		}
	}
	return cool
}

// compare records which members are outside of the outer band, and reports whether one is far outside, or
// has been outside for a TTL.
func (p *Planner) compare(now time.Time, s situation) (reason bool) {
	b := ByLoad{Load: s.loads}
	b.begin(p.Name, s.all, s.owners, s.light)
	b.level = b.levelOf()
	outside := map[int64]time.Time{}
	for _, m := range b.pool {
		r := b.ratio(m)
		over := r / b.limit(m)
		if b.level == 0 || over <= edgeUp && r >= edgeDown*b.level {
			continue
		}
		since, was := p.outside[s.leases[m]]
		if !was {
			since = now
		}
		outside[s.leases[m]] = since
		reason = reason || over > atOnce || now.Sub(since) >= p.TTL
	}
	p.outside = outside
	return reason
}

// moving reports whether moves are under way. What takes longer than a TTL may never end, so it does not
// count any more.
func (p *Planner) moving(now time.Time) bool {
	busy := 0
	for _, q := range p.View.Queues {
		if len(q) > 1 {
			busy++
		}
	}
	for lease, m := range p.View.Members {
		busy += p.missing(lease, m)
	}
	if busy != p.busy {
		p.busy, p.busyAt = busy, now
	}
	return busy > 0 && now.Sub(p.busyAt) < p.TTL
}

// evened records that a plan has moved shards because the loads were uneven. They stay for a while, longer
// each time, and the next such plan waits, longer each time.
func (p *Planner) evened(now time.Time, moved Set) {
	for i := range moved.All() {
		c := p.cool[i]
		if now.Sub(c.until) >= maxCool {
			c.span = 0
		}
		c.span = min(max(2*c.span, coolFor*p.TTL), maxCool)
		c.until = now.Add(c.span)
		p.cool[i] = c
	}
	if now.Sub(p.evenedAt) >= calmFor {
		p.pause = 0
	}
	p.evenedAt, p.pause = now, min(max(2*p.pause, p.TTL/perThird), maxLoadWait)
}
