package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// page is docs/results/scale.md.
func page(c costs, g growths, w deployment) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, intro, w.cores, percent(full))
	b.WriteString(oneCluster(c, w))
	fmt.Fprintf(&b, ends, us(c.handoff), us(c.long), us(c.longest), math.Round(1/c.handover), ms(c.handover),
		us(c.session), percent(10_000/15.*c.session/float64(w.cores)), percent(10_000/60.*c.session/float64(w.cores)))
	grown, err := g.table()
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, growing, grown)
	past, err := g.line("past-lock", "pawl", "a pair alone: server CPU, µs")
	if err != nil {
		return "", err
	}
	between := compaction.Seconds() / w.hold.Seconds() // how often a name changes hands
	fmt.Fprintf(&b, million, grouped(w.holders), grouped(w.processes), w.hold, percent(w.contended), w.ttl, w.cores,
		us(c.pair), us(c.handoff), us(c.session), compaction, math.Ceil(between), past.each()*between)
	table, err := simulated(c, w)
	if err != nil {
		return "", err
	}
	b.WriteString(table)
	b.WriteString(further)
	return b.String(), nil
}

// compaction is how often the cluster of the million holders compacts.
const compaction = time.Hour

// full is how much of its cores a cluster should use at most.
const full = 0.7

// oneCluster is how much one cluster carries of each thing, if it does nothing else.
func oneCluster(c costs, w deployment) string {
	cpu := full * float64(w.cores)
	var b strings.Builder
	b.WriteString("| | cost on the server | one cluster carries | from |\n|---|---|---|---|\n")
	row := func(what, costs, carries, from string) {
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` |\n", what, costs, carries, from)
	}
	row("an uncontended acquisition and release", us(c.pair)+" of CPU", rate(cpu/c.pair), "uncontended-64")
	row("a handover, 100 waiters, many such queues", us(c.handoff)+" of CPU", rate(cpu/c.handoff), "chain-100-hold-0s")
	row("a handover, 1,000 waiters", us(c.long)+" of CPU", rate(cpu/c.long), "chain-1000-hold-0s")
	row("a handover, 5,000 waiters", us(c.longest)+" of CPU", rate(cpu/c.longest), "chain-5000-hold-0s")
	row("a session alone in its client, TTL 15 s: four renewals, each with a read", us(c.session)+" of CPU in a TTL", thousands(15*cpu/c.session)+" sessions", "renewals-apart")
	row("the same, TTL 60 s", us(c.session)+" of CPU in a TTL", thousands(60*cpu/c.session)+" sessions", "renewals-apart")
	row("a new session", us(c.open)+" of CPU", rate(cpu/c.open), "sessions")
	row("a lock held, with its watch", bytes(c.lockHeap)+" of heap", thousands(4*gib/c.lockHeap)+" in 4 GiB", "held-many")
	row("a waiter, with its two watches", bytes(c.waitHeap)+" of heap", thousands(4*gib/c.waitHeap)+" in 4 GiB", "chain-5000-hold-0s")
	row("a session, with its key's watch", bytes(c.leaseHeap)+" of heap", thousands(4*gib/c.leaseHeap)+" in 4 GiB", "renewals-many")
	return b.String()
}

const gib = 1 << 30

// simulated is the table of clusters and the load of the busiest.
func simulated(c costs, w deployment) (string, error) {
	var b strings.Builder
	b.WriteString("| clusters | names on the busiest | its sessions | its acquisitions a second | its renewals a second | its cores in use | wait of a request, p50 | p99 | its heap |\n")
	b.WriteString("|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		shards, closeAll, err := shardsOf(n)
		if err != nil {
			return "", err
		}
		l := w.on(c, shards.Label)
		closeAll()
		p50, p99 := l.delay[0].Round(time.Microsecond).String(), l.delay[1].Round(time.Microsecond).String()
		if l.utilisation >= 1 {
			p50, p99 = "too much", "too much"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %.1f GiB |\n", n, grouped(l.names), grouped(l.sessions),
			grouped(int(l.acquired)), grouped(int(l.renewals)), percent(l.utilisation), p50, p99, l.heap/gib)
	}
	return b.String(), nil
}

func us(seconds float64) string    { return grouped(int(math.Round(seconds*1e6))) + " µs" }
func ms(seconds float64) string    { return fmt.Sprintf("%.1f ms", seconds*1e3) }
func percent(share float64) string { return fmt.Sprintf("%.0f %%", share*100) }
func bytes(n float64) string       { return fmt.Sprintf("%.1f KiB", n/1024) }
func rate(a float64) string        { return thousands(a) + " a second" }
func thousands(n float64) string   { return grouped(int(worth(n))) }

// worth rounds n to the two digits that such an estimate is worth.
func worth(n float64) float64 {
	if n < 100 {
		return math.Round(n)
	}
	unit := math.Pow(10, math.Floor(math.Log10(n))-1)
	return math.Round(n/unit) * unit
}

func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
