package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A deployment is many holders on some clusters.
type deployment struct {
	holders   int
	processes int
	hold      time.Duration
	contended float64
	ttl       time.Duration
	cores     int
	span      time.Duration
	seed      uint64
}

func (w deployment) check() error {
	switch {
	case w.holders < 1, w.processes < 1, w.cores < 1:
		return errors.New("holders, processes and cores must be at least 1")
	case w.hold <= 0, w.ttl <= 0, w.span <= 0:
		return errors.New("hold, ttl and span must be above 0")
	case w.contended < 0 || w.contended > 1:
		return errors.New("contended must be a share, 0 to 1")
	}
	return nil
}

// load is the load of the busiest cluster.
type load struct {
	names       int     // it has
	sessions    int     // on it
	acquired    float64 // a second
	renewals    float64 // a second
	utilisation float64 // of its cores
	delay       [2]time.Duration
	heap        float64
}

// on spreads the holders over clusters, according to where, and lets the busiest cluster work
// for a while.
func (w deployment) on(c costs, where func(name string) string) load {
	names, sessions := w.perCluster(where)
	var busiest string
	for label := range names {
		if busiest == "" || names[label] > names[busiest] || names[label] == names[busiest] && label < busiest {
			busiest = label
		}
	}
	l := load{names: names[busiest], sessions: sessions[busiest]}
	l.acquired = float64(l.names) / w.hold.Seconds()
	rounds := float64(l.sessions) / w.ttl.Seconds()
	l.renewals = 4 * rounds
	each := (1-w.contended)*c.pair + w.contended*c.handoff
	l.utilisation = (l.acquired*each + rounds*c.session) / float64(w.cores)
	waiting := w.contended * float64(l.names)
	l.heap = float64(l.names)*c.lockHeap + waiting*c.waitHeap + float64(l.sessions)*c.leaseHeap
	if l.utilisation < 1 {
		l.delay = w.queue(c, l)
	}
	return l
}

// perCluster counts names and sessions on each cluster. A process has a session on every cluster that
// one of its names is on.
func (w deployment) perCluster(where func(string) string) (names, sessions map[string]int) {
	names, sessions = map[string]int{}, map[string]int{}
	each := max(1, w.holders/w.processes)
	var used map[string]bool // by the present process
	for i := range w.holders {
		if i%each == 0 {
			used = map[string]bool{}
		}
		label := where(fmt.Sprintf("jobs/%d", i))
		names[label]++
		if !used[label] {
			used[label] = true
			sessions[label]++
		}
	}
	return names, sessions
}

// queue lets requests arrive at random, each served by one of the leader's cores, and returns the
// median and the 99th percentile of how long they wait for it.
func (w deployment) queue(c costs, l load) [2]time.Duration {
	rng := rand.New(rand.NewPCG(w.seed, uint64(l.names)))
	free := make([]float64, w.cores) // when each core is
	var waited []float64
	rate := l.acquired*2 + l.renewals*2 // two requests an acquisition, a renewal and its read
	for now := 0.0; now < w.span.Seconds(); {
		now += rng.ExpFloat64() / rate
		core := 0
		for i := range free {
			if free[i] < free[core] {
				core = i
			}
		}
		begin := math.Max(now, free[core])
		free[core] = begin + rng.ExpFloat64()*w.work(c, l, rng.Float64()*rate)
		waited = append(waited, begin-now)
	}
	slices.Sort(waited)
	at := func(q float64) time.Duration {
		return time.Duration(waited[int(q*float64(len(waited)-1))] * float64(time.Second))
	}
	return [2]time.Duration{at(0.5), at(0.99)}
}

// work is what one request costs. at, between 0 and the sum of all, says which request.
func (w deployment) work(c costs, l load, at float64) float64 {
	switch {
	case at < 2*l.acquired*w.contended:
		return c.handoff / 2
	case at < 2*l.acquired:
		return c.pair / 2
	default:
		return c.session / 8
	}
}
