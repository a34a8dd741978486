//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// results are the figures of a run.
type results struct {
	flags
	began      time.Time
	took       time.Duration
	filesystem string
	sync       time.Duration
	daemon     string // where pawld was built
	steal      steal
	got        map[string]map[string][][]figures // by scenario, kit, round, size
}

// round makes the runs of one scenario. Every kit comes first equally often, and the order is
// reversed in a second run, so that a drift of the machine or the server affects all alike.
func (r *results) round(ctx context.Context, e *etcd, round int, s scenario) error {
	take := func(o order) ([]figures, error) { return turn(ctx, e, o) }
	sum := map[string][]figures{}
	dial, err := e.dial(s.RTT)
	if err != nil {
		return err
	}
	for turnNo := range s.turns {
		inTurn := append(slices.Clone(s.kits[round%len(s.kits):]), s.kits[:round%len(s.kits)]...)
		if turnNo%2 == 1 {
			slices.Reverse(inTurn)
		}
		for i, kit := range inTurn {
			o := order{Kit: kit, Scenario: s, Addr: e.addr, Metrics: e.metrics, Cert: e.cert, Dial: dial, Members: e.members, Profile: r.profile, Daemon: r.daemon, Tag: fmt.Sprintf("%s-r%dt%dk%d", s.Name, round, turnNo, i)}
			start := time.Now()
			var got []figures
			var err error
			if r.short {
				got, err = take(o)
			} else {
				got, err = r.steal.undisturbed(o, readMachineTime, take)
			}
			if err != nil {
				return err
			}
			for _, f := range got {
				fmt.Fprintf(os.Stderr, "round %d  %-20s %7d %-18s %5.1f s  p50 %8.3f ms  wall %7.3f s  cpu/op %8.1f µs  server %8.1f µs\n",
					round+1, s.Name, f.N, kit, time.Since(start).Seconds(), f.P50*1e3, f.Wall, f.cpu()*1e6, f.serverCPU()*1e6)
			}
			if r.profile != "" {
				fmt.Fprintf(os.Stderr, "  %v\n", got[0].Calls)
			}
			if before := sum[kit]; before != nil {
				for j := range got {
					got[j] = before[j].add(got[j])
				}
			}
			sum[kit] = got
		}
	}
	if r.got[s.Name] == nil {
		r.got[s.Name] = map[string][][]figures{}
	}
	for kit, got := range sum {
		r.got[s.Name][kit] = append(r.got[s.Name][kit], got)
	}
	return nil
}

// of are the figures of one scenario, kit and size, one for each round.
func (r *results) of(scenario, kit string, n int) (all []figures) {
	for _, sizes := range r.got[scenario][kit] {
		for _, f := range sizes {
			if f.N == n {
				all = append(all, f)
			}
		}
	}
	return all
}

// spread is one view of those over the rounds.
func (r *results) spread(scenario, kit string, n int, view func(figures) float64) spread {
	var values []float64
	for _, f := range r.of(scenario, kit, n) {
		values = append(values, view(f))
	}
	return spreadOf(values)
}

// ratios divide a's by b's, round by round. Without a b they are a's figures.
func (r *results) ratios(scenario, a, b string, n int, view func(figures) float64) (all []float64) {
	bs := r.of(scenario, b, n)
	for i, f := range r.of(scenario, a, n) {
		if b == "" {
			all = append(all, view(f))
		} else if i < len(bs) && view(bs[i]) != 0 {
			all = append(all, view(f)/view(bs[i]))
		} else {
			all = append(all, math.NaN())
		}
	}
	return all
}
