//go:build linux

package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A target is a ratio that is to be met in every round.
type target struct {
	what     string
	scenario string
	n        int
	a, b     string // a's figure divided by b's
	view     func(figures) float64
	bound    float64
	atLeast  bool // else at most
}

// targets are what is asked of pawl, as ratios within one round.
func targets() []target {
	c100, c1000 := chainName(100, 0), chainName(1_000, 0)
	return []target{
		{"throughput with 1 worker, of pawl's alone", "uncontended-1", 1, ours, lone, figures.throughput, 0.97, true},
		{"throughput with 8 workers, of the peer's", "uncontended-8", 8, ours, theirs, figures.throughput, 0.95, true},
		{"throughput with 64 workers, of the peer's", "uncontended-64", 64, ours, theirs, figures.throughput, 1.8, true},
		{"throughput with 512 workers, of the peer's", "uncontended-512", 512, ours, theirs, figures.throughput, 2, true},
		{"median time of an acquisition and release, 64 workers, of the peer's", "uncontended-64", 64, ours, theirs, figures.p50, 0.6, false},
		{"client CPU of it, 64 workers, of the peer's", "uncontended-64", 64, ours, theirs, figures.cpu, 0.5, false},
		{"client CPU of it, 512 workers, of the peer's", "uncontended-512", 512, ours, theirs, figures.cpu, 0.45, false},
		{"server CPU of it, 64 workers, of the peer's", "uncontended-64", 64, ours, theirs, figures.serverCPU, 0.6, false},
		{"server CPU of it, 512 workers, of the peer's", "uncontended-512", 512, ours, theirs, figures.serverCPU, 0.5, false},
		{"drain of 1,000 waiters that hold for no time: the peer's, of ours", c1000, 1_000, theirs, ours, figures.wall, 1.5, true},
		{"drain of 100 waiters that hold for no time: the peer's, of ours", c100, 100, theirs, ours, figures.wall, 1.3, true},
		{"release to acquire at the median, holds of 5 ms, 100 waiters, of the peer's", chainName(100, 5*time.Millisecond), 100, ours, theirs, figures.p50, 0.5, false},
		{"client CPU of a contended acquisition, 1,000 waiters, of the peer's", c1000, 1_000, ours, theirs, figures.cpu, 0.5, false},
		{"client CPU of a contended acquisition, 100 waiters, of the peer's", c100, 100, ours, theirs, figures.cpu, 0.5, false},
		{"drain of 1,000 waiters in 20 processes: the peer's, of ours", "apart-1000-in-20-processes", 1_000, theirs, ours, figures.wall, 1.5, true},
		{"client CPU of a contended acquisition, 1,000 waiters in 20 processes, of the peer's", "apart-1000-in-20-processes", 1_000, ours, theirs, figures.cpu, 0.6, false},
		{"client CPU of it, 250 names of four waiters, of the peer's", "apart-250-names-of-4", 1_000, ours, theirs, figures.cpu, 0.8, false},
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

// targets is the table of them.
func (r *results) targets() string {
	var b strings.Builder
	b.WriteString("| ratio | target | each round | median | met in |\n|---|---|---|---|---|\n")
	for _, t := range targets() {
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

func missed(met, of int) string {
	if met < of {
		return ", **not always**"
	}
	return ""
}
