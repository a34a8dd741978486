//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A target is a ratio that every round has to meet.
type target struct {
	what     string
	scenario string
	n        int
	a, b     string // a's figure divided by b's, or a's figure if b is ""
	view     func(figures) float64
	bound    float64
	atLeast  bool // else at most
}

// targets are the targets for pawl, as ratios within one round.
func targets() []target {
	return slices.Concat(bothTargets(1), bothTargets(3), loopbackTargets(), busyTargets(), shardTargets())
}

// kept are what earlier versions reached, and later ones must not lose.
func kept() []target {
	return slices.Concat(chainTargets(), delayedTargets(), faultyTargets())
}

// delayedTargets are the targets for workers behind a network.
func delayedTargets() (all []target) {
	for i, bounds := range [][]float64{{0.97, 1.1, 1.6}, {0.97, 0.9, 1.5}} {
		for j, p := range delayedPoints(delays[i]) {
			all = append(all, target{fmt.Sprintf("throughput with %d workers and round trips of %v, pawl / clientv3", p.n, delays[i]),
				p.scenario, p.n, ours, theirs, figures.throughput, bounds[j], true})
		}
	}
	return all
}

// busyTargets are the targets for handovers while others write, and for a first lock while a member is
// stopped.
func busyTargets() (all []target) {
	for _, members := range []int{1, 3} {
		name, n := busyName(members, 2_000, shortly), handovers(shortly)
		all = append(all,
			target{fmt.Sprintf("release to acquire at p90 while others write 2,000 keys a second, members: %d, pawl / clientv3", members), name, n, ours, theirs, figures.p90, 0.05, false},
			target{fmt.Sprintf("the same at p99, members: %d, seconds", members), name, n, ours, "", figures.p99, 0.01, false})
	}
	return append(all, target{"the slowest of nine clients' first locks, one of three members stopped, pawl / clientv3", firstLockName, 9, ours, theirs, figures.p99, 1.5, false})
}

// faultyTargets are the targets for faults in requests of several writes.
func faultyTargets() []target {
	trips := func(f figures) float64 { return f.P50 / far.Seconds() }
	return []target{
		{"share answered later than 500 ms, a member frozen, 400 arrivals a second", "frozen", 4_000, ours, "", figures.share, 0.01, false},
		{"500 enqueues on one name, round trips of 30 ms, pawl / pawl without shared requests", "one-name", 500, ours, lone, figures.p50, 1.1, false},
		{"release to acquire past 500 waiters that gave up, in round trips of 30 ms", "given-up", 500, ours, "", trips, 5, false},
		{"share of releases under NOSPACE that succeed, sent with as many refused enqueues", "no-space", 200, ours, "", figures.share, 1, true},
	}
}

// shardTargets are the targets for shards that move in order, in seconds.
func shardTargets() []target {
	rolling := shardsName("rolling", 64)
	return []target{
		{"seconds for which a shard has nobody when it moves in order, median, a rolling restart of 8 workers", rolling, 8, ours, "", figures.p50, 0.02, false},
		{"the same at p99", rolling, 8, ours, "", figures.p99, 0.1, false},
	}
}

// bothTargets are the targets on one member, and on as many as users have.
func bothTargets(members int) []target {
	all := []target{
		{"throughput with 1 worker, pawl / clientv3", "uncontended-1", 1, ours, theirs, figures.throughput, 1, true},
		{"throughput with 8 workers, pawl / clientv3", "uncontended-8", 8, ours, theirs, figures.throughput, 1.2, true},
		{"throughput with 64 workers, pawl / clientv3", "uncontended-64", 64, ours, theirs, figures.throughput, 1.9, true},
		{"throughput with 512 workers, pawl / clientv3", "uncontended-512", 512, ours, theirs, figures.throughput, 2.15, true},
		{"client CPU of an acquisition and release, 64 workers, pawl / clientv3", "uncontended-64", 64, ours, theirs, figures.cpu, 0.45, false},
		{"client CPU of an acquisition and release, 512 workers, pawl / clientv3", "uncontended-512", 512, ours, theirs, figures.cpu, 0.38, false},
		{"the first 300 of 1,000 waiters that hold for no time, drain, clientv3 / pawl", chainName(1_000, 0), 1_000, theirs, ours, figures.wall, 2.2, true},
		{"release to acquire at the median, holds of 5 ms, 100 waiters, pawl / clientv3", chainName(100, 5*time.Millisecond), 100, ours, theirs, figures.p50, 0.55, false},
	}
	for i := range all {
		all[i].scenario = onMembers(members, all[i].scenario)
		if members > 1 {
			all[i].what += fmt.Sprintf(", members: %d", members)
		}
	}
	return all
}

// chainTargets are what earlier versions reached without a network.
func chainTargets() []target {
	c100, c1000 := chainName(100, 0), chainName(1_000, 0)
	return []target{
		{"median time of an acquisition and release, 64 workers, pawl / clientv3", "uncontended-64", 64, ours, theirs, figures.p50, 0.6, false},
		{"the same, members: 3", onMembers(3, "uncontended-64"), 64, ours, theirs, figures.p50, 0.6, false},
		{"drain of 100 waiters that hold for no time, clientv3 / pawl", c100, 100, theirs, ours, figures.wall, 1.3, true},
		{"client CPU of a contended acquisition, 1,000 waiters, pawl / clientv3", c1000, 1_000, ours, theirs, figures.cpu, 0.5, false},
		{"client CPU of a contended acquisition, 100 waiters, pawl / clientv3", c100, 100, ours, theirs, figures.cpu, 0.5, false},
		{"drain of 100 waiters in 20 processes, clientv3 / pawl", "apart-100-in-20-processes", 100, theirs, ours, figures.wall, 1.3, true},
		{"client CPU of a contended acquisition, 100 waiters in 20 processes, pawl / clientv3", "apart-100-in-20-processes", 100, ours, theirs, figures.cpu, 0.6, false},
		{"drain of 100 waiters in 100 clients, clientv3 / pawl", "apart-100-in-100-clients", 100, theirs, ours, figures.wall, 1.3, true},
		{"client CPU of a contended acquisition, 100 waiters in 100 clients, pawl / clientv3", "apart-100-in-100-clients", 100, ours, theirs, figures.cpu, 0.6, false},
		{"drain of 250 names of four waiters, clientv3 / pawl", "apart-250-names-of-4", 1_000, theirs, ours, figures.wall, 1.3, true},
		{"client CPU of a contended acquisition, 250 names of four waiters, pawl / clientv3", "apart-250-names-of-4", 1_000, ours, theirs, figures.cpu, 0.8, false},
	}
}

// loopbackTargets are the other targets on one member, without a network.
func loopbackTargets() []target {
	return []target{
		{"CPU of client and server for an acquisition and release, 64 workers, pawl / clientv3", "uncontended-64", 64, ours, theirs, figures.bothCPU, 0.49, false},
		{"CPU of client and server for an acquisition and release, 512 workers, pawl / clientv3", "uncontended-512", 512, ours, theirs, figures.bothCPU, 0.4, false},
		{"server CPU of an acquisition and release, 64 workers, floor / clientv3", "uncontended-64", 64, bare, theirs, figures.serverCPU, 1, false},
		{"bytes to the server for an acquisition and release, 1 worker", "uncontended-1", 1, ours, "", figures.bytesIn, 420, false},
		{"allocations of an acquisition and release, 1 worker", "uncontended-1", 1, ours, "", figures.allocs, 235, false},
		{"allocations of an acquisition and release, 64 workers", "uncontended-64", 64, ours, "", figures.allocs, 75, false},
		{"heap of the client for a lock that is held, bytes", "held", 10_000, ours, "", figures.heap, 1024, false},
		{"drain of 1,000 waiters in 20 processes, clientv3 / pawl", "apart-1000-in-20-processes", 1_000, theirs, ours, figures.wall, 1.8, true},
		{"client CPU of a contended acquisition, 1,000 waiters in 20 processes, pawl / clientv3", "apart-1000-in-20-processes", 1_000, ours, theirs, figures.cpu, 0.5, false},
	}
}

func (t target) met(ratio float64) bool {
	if t.atLeast {
		return ratio >= t.bound
	}
	return ratio <= t.bound
}

// verdict counts the rounds in which ratios meet the target.
func (t target) verdict(ratios []float64) (met, of int) {
	for _, x := range ratios {
		if math.IsNaN(x) {
			continue
		}
		of++
		if t.met(x) {
			met++
		}
	}
	return met, of
}

// verdicts is the table of all.
func (r *results) verdicts(all []target) string {
	var b strings.Builder
	b.WriteString("| figure | target | each round | median | met in |\n|---|---|---|---|---|\n")
	for _, t := range all {
		ratios := r.ratios(t.scenario, t.a, t.b, t.n, t.view)
		met, of := t.verdict(ratios)
		if of == 0 {
			continue
		}
		var each []string
		for _, x := range ratios {
			each = append(each, fmt.Sprintf("%.3f", x)) // so that 0.504, which misses 0.5, does not look like it
		}
		sign := "≤"
		if t.atLeast {
			sign = "≥"
		}
		fmt.Fprintf(&b, "| %s | %s %g | %s | %.3f | %d of %d%s |\n", t.what, sign, t.bound,
			strings.Join(each, ", "), spreadOf(ratios).median, met, of, missed(met, of))
	}
	return b.String()
}

// misses is the table of the targets that not every round has met.
func (r *results) misses(all []target) string {
	var b strings.Builder
	for _, t := range all {
		ratios := r.ratios(t.scenario, t.a, t.b, t.n, t.view)
		met, of := t.verdict(ratios)
		if met == of {
			continue
		}
		sign := "≤"
		if t.atLeast {
			sign = "≥"
		}
		fmt.Fprintf(&b, "| %s | %s %g | %.3f | %d of %d |\n", t.what, sign, t.bound, spreadOf(ratios).median, met, of)
	}
	if b.Len() == 0 {
		return ""
	}
	return "| figure | target | median | met in |\n|---|---|---|---|\n" + b.String()
}

func missed(met, of int) string {
	switch {
	case met == 0:
		return ", **never**"
	case met < of:
		return ", **not always**"
	}
	return ""
}

// targeted are the scenarios that targets compare, with only those kits and sizes.
func targeted(list []scenario) (out []scenario) {
	for _, s := range list {
		var kits []string
		var sizes []int
		for _, t := range slices.Concat(targets(), kept()) {
			if t.scenario == s.Name {
				kits, sizes = append(kits, t.a, t.b), append(sizes, t.n)
			}
		}
		s.Sizes = slices.DeleteFunc(slices.Clone(s.Sizes), func(n int) bool { return !slices.Contains(sizes, n) })
		s.kits = slices.DeleteFunc(slices.Clone(s.kits), func(k string) bool { return !slices.Contains(kits, k) })
		if len(s.kits) > 0 {
			out = append(out, s)
		}
	}
	return out
}
