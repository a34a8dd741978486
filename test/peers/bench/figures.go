//go:build linux

package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// figures are the results of one run: sums over all operations, unless a field says otherwise.
// Times are in seconds.
type figures struct {
	N          int // of workers, waiters, locks, sessions
	Turns      int // how many runs are added up
	Ops        int
	Wall       float64
	CPU        float64
	DaemonCPU  float64 // of pawld, if the scenario uses it
	ServerCPU  float64
	Allocs     float64
	AllocBytes float64
	BytesIn    float64 // as the server counts
	BytesOut   float64
	Calls      map[string]float64
	P50, P99   float64 // of one operation, or of release to acquire
	P90        float64 // where a scenario says it
	Goroutines float64 // for each of N
	Heap       float64 // for each of N, of the client
	ServerHeap float64 // for each of N
	Share      float64 // the share of all operations that a scenario counts
	More       []gauge // of a growth
}

// add adds another run of the same round.
func (f figures) add(g figures) figures {
	mean := func(a, b float64) float64 {
		return (a*float64(f.Turns) + b*float64(g.Turns)) / float64(f.Turns+g.Turns)
	}
	sum := figures{N: f.N, Turns: f.Turns + g.Turns, Ops: f.Ops + g.Ops, Wall: f.Wall + g.Wall, CPU: f.CPU + g.CPU, DaemonCPU: f.DaemonCPU + g.DaemonCPU, ServerCPU: f.ServerCPU + g.ServerCPU,
		Allocs: f.Allocs + g.Allocs, AllocBytes: f.AllocBytes + g.AllocBytes, BytesIn: f.BytesIn + g.BytesIn, BytesOut: f.BytesOut + g.BytesOut,
		P50: mean(f.P50, g.P50), P99: mean(f.P99, g.P99), P90: mean(f.P90, g.P90), Goroutines: mean(f.Goroutines, g.Goroutines),
		Heap: mean(f.Heap, g.Heap), ServerHeap: mean(f.ServerHeap, g.ServerHeap), Share: mean(f.Share, g.Share), Calls: map[string]float64{}}
	for _, calls := range []map[string]float64{f.Calls, g.Calls} {
		for method, n := range calls {
			sum.Calls[method] += n
		}
	}
	return sum
}

// The views of figures.
func (f figures) throughput() float64 { return float64(f.Ops) / f.Wall }
func (f figures) wall() float64       { return f.Wall / float64(f.Turns) }
func (f figures) p50() float64        { return f.P50 }
func (f figures) p90() float64        { return f.P90 }
func (f figures) p99() float64        { return f.P99 }
func (f figures) heap() float64       { return f.Heap }
func (f figures) goroutines() float64 { return f.Goroutines }
func (f figures) serverHeap() float64 { return f.ServerHeap }
func (f figures) share() float64      { return f.Share }
func (f figures) cpu() float64        { return f.CPU / float64(f.Ops) }
func (f figures) serverCPU() float64  { return f.ServerCPU / float64(f.Ops) }
func (f figures) bothCPU() float64    { return f.cpu() + f.serverCPU() }
func (f figures) allocs() float64     { return f.Allocs / float64(f.Ops) }
func (f figures) allocBytes() float64 { return f.AllocBytes / float64(f.Ops) }
func (f figures) bytesIn() float64    { return f.BytesIn / float64(f.Ops) }
func (f figures) bytesOut() float64   { return f.BytesOut / float64(f.Ops) }

// daemonCPU is NaN if no daemon was used.
func (f figures) daemonCPU() float64 {
	if f.DaemonCPU == 0 {
		return math.NaN()
	}
	return f.DaemonCPU / float64(f.Ops)
}

// requests is how many requests one operation takes, without messages of streams.
func (f figures) requests() float64 {
	return f.sent(func(method string) bool { return !strings.HasSuffix(method, in) && !strings.HasSuffix(method, out) })
}

// watches is how many messages watching takes, to the server and from it.
func (f figures) watches() float64 {
	return f.sent(func(method string) bool { return strings.HasPrefix(method, "Watch") })
}

func (f figures) sent(of func(method string) bool) (sum float64) {
	for method, n := range f.Calls {
		if of(method) {
			sum += n / float64(f.Ops)
		}
	}
	return sum
}

// quantiles are the median and the 99th percentile of times, which it sorts.
func quantiles(times []time.Duration) (p50, p99 float64) {
	if len(times) == 0 {
		return math.NaN(), math.NaN()
	}
	return quantile(times, 0.5), quantile(times, 0.99)
}

func quantile(times []time.Duration, q float64) float64 {
	slices.Sort(times)
	return times[int(q*float64(len(times)-1)+0.5)].Seconds()
}

// spread is the median of figures of several rounds, and their extremes.
type spread struct{ median, least, most float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	v := slices.SortedFunc(slices.Values(values), cmp.Compare)
	mid := v[len(v)/2]
	if len(v)%2 == 0 {
		mid = (v[len(v)/2-1] + v[len(v)/2]) / 2
	}
	return spread{mid, v[0], v[len(v)-1]}
}
