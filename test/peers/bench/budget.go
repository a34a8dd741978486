//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A limit is a row of the cost budget.
type limit struct {
	operation string
	scenario  string
	n         int
	budget    string
	show      func(r *results, l limit, kit string) string
}

// limits are the rows of the budget that are measured here.
func limits() []limit {
	chain := chainName(1_000, 0)
	return []limit{
		{"acquire and release, uncontended", "uncontended-1", 1, "2 unary requests, no Watch message", calls},
		{"a new session", "sessions", 200, "1 LeaseGrant, 1 Txn, and one watch", calls},
		{"each contended acquisition with its release, 1,000 waiters", chain, 1_000, "3 requests; Watch at most 4 in, 7 out", calls},
		{"TryAcquire on a held lock", "try-held", 1, "1 read", calls},
		{"TryAcquire on a free lock, and its release", "try-free", 1, "1 read, 2 Txn", calls},
		{"renewals of one session, for a TTL", "renewals", 500, "4, each with one read, on a stream whose end counts as a message", calls},
		{"goroutines for each lock held", "held", 10_000, "0", number(figures.goroutines, "%.2f")},
		{"goroutines for each waiter besides its caller's, 1,000 waiters", chain, 1_000, "0", number(figures.goroutines, "%.2f")},
		{"goroutines for each session", "sessions", 200, "at most 3", number(figures.goroutines, "%.2f")},
		{"memory for each lock held, 10,000 locks", "held", 10_000, "at most 2,048 B, its watch included", number(figures.heap, "%.0f B")},
		{"allocations of an acquisition and release, 1 worker", "uncontended-1", 1, "at most 260", number(figures.allocs, "%.0f")},
		{"bytes allocated by it", "uncontended-1", 1, "at most 18.5 KiB, not counting renewals and the refilling of emptied pools, which these figures count", number(kib, "%.1f KiB")},
	}
}

// budget is the table of them.
func (r *results) budget() string {
	var b strings.Builder
	b.WriteString("| operation | budget | pawl | clientv3 | floor |\n|---|---|---|---|---|\n")
	for _, l := range limits() {
		if len(r.of(l.scenario, ours, l.n)) == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", l.operation, l.budget, l.show(r, l, ours), l.show(r, l, theirs), l.show(r, l, bare))
	}
	return b.String()
}

func kib(f figures) float64 { return f.allocBytes() / 1024 }

func number(view func(figures) float64, format string) func(*results, limit, string) string {
	return func(r *results, l limit, kit string) string {
		return fmt.Sprintf(format, r.spread(l.scenario, kit, l.n, view).median)
	}
}

// calls are the requests and stream messages of one operation, over all rounds.
func calls(r *results, l limit, kit string) string {
	sum, ops := map[string]float64{}, 0
	for _, f := range r.of(l.scenario, kit, l.n) {
		ops += f.Ops
		for method, n := range f.Calls {
			sum[method] += n
		}
	}
	var parts []string
	for _, method := range slices.Sorted(maps.Keys(sum)) {
		if n := sum[method] / float64(ops); n >= 0.005 {
			parts = append(parts, strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", n), "0"), ".")+" "+method)
		}
	}
	return strings.Join(parts, ", ")
}
