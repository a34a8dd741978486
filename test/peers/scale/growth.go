package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
)

// growths are what test/peers/bench -growth played, by scenario and kit.
type growths map[string]map[string]struct {
	Sizes []struct {
		N      int
		Gauges []struct {
			What  string
			Value float64
		}
	}
}

func readGrowths(file string) (g growths, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w (make growth writes it)", err)
	}
	if err := json.Unmarshal(text, &g); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return g, nil
}

// A line is a figure at the two greatest sizes that were played.
type line struct {
	sizes  [2]int
	values [2]float64
}

// line returns a figure. It is an error if it was not played at two sizes.
func (g growths) line(scenario, kit, what string) (l line, err error) {
	at := 0
	for _, size := range g["growth-"+scenario][kit].Sizes {
		for _, gauge := range size.Gauges {
			if gauge.What == what {
				l.sizes, l.values = [2]int{l.sizes[1], size.N}, [2]float64{l.values[1], gauge.Value}
				at++
			}
		}
	}
	if at < 2 {
		return l, fmt.Errorf("no %q of %s, %s, at two sizes: play it again with make growth", what, scenario, kit)
	}
	return l, nil
}

// slope is the exponent with which the figure grows with the size.
func (l line) slope() float64 {
	return math.Log(l.values[1]/l.values[0]) / math.Log(float64(l.sizes[1])/float64(l.sizes[0]))
}

// each is by how much the figure grows with each more, from the one size to the other.
func (l line) each() float64 {
	return max(0, l.values[1]-l.values[0]) / float64(l.sizes[1]-l.sizes[0])
}

// A grown is a row of the page's table of what grows.
type grown struct {
	thing, scenario, kit, what, unit, advice string
}

var grows = []grown{
	{"a lock that has changed hands so often since the last compaction, an acquisition and release", "past-lock", "pawl", "a pair alone: server CPU, µs", "µs of the server's CPU", "let etcd compact every few minutes"},
	{"the same with etcd's client, which uses a name again", "past-lock", "clientv3", "a pair alone: server CPU, µs", "µs of the server's CPU", ""},
	{"the same for a permit of a semaphore", "past-permits", "pawl", "a pair alone: server CPU, µs", "µs of the server's CPU", "the same; a permit takes three names"},
	{"so many waiters of one lock, an enqueue", "queue", "pawl", "an enqueue at the end: server CPU, µs", "µs of the server's CPU", "a few thousand waiters; others try again"},
	{"the same, a handover", "queue", "pawl", "a handover: requests", "requests", ""},
	{"the same, a waiter that gives up", "queue", "pawl", "a waiter in the middle gives up: requests", "requests", ""},
	{"the same, `Queue`, and the beginning of `pawl top` and `pawl ui`", "queue", "pawl", "Queue, of all: bytes", "bytes", "`pawl show` and `pawl ls` read values of the first alone"},
	{"the same, `pawl show`", "queue", "pawl", "pawl show, of all: bytes", "bytes", ""},
	{"the same, `pawl ls`", "queue", "pawl", "pawl ls, of all: bytes", "bytes", ""},
	{"so many locks of one session, kept for a TTL", "held", "pawl", "kept for a TTL, of all: requests", "requests", ""},
	{"the same, all of them lost at once", "held", "pawl", "lost, of all: ms", "ms", "as much later does the last of them learn it; storage checks tokens"},
	{"the same, `Close`", "held", "pawl", "Close, of all: ms", "ms", ""},
	{"the same, a takeover of each", "held", "pawl", "taken over: requests", "requests", ""},
	{"so many acquisitions in the life of one client, its heap", "life", "pawl", "heap of the client since the beginning, KiB", "KiB", ""},
	{"so many sessions of one client, each for a TTL", "sessions", "pawl", "client CPU, µs", "µs of the client's CPU", "one session for each process"},
	{"the same with etcd's client", "sessions", "clientv3", "client CPU, µs", "µs of the client's CPU", ""},
	{"so many clients of one pawld, each for a TTL", "clients", "pawld", "pawld CPU, µs", "µs of pawld's CPU", ""},
	{"so many acquisitions through pawld, each", "pawld", "pawld", "pawld CPU of a pair, µs", "µs of pawld's CPU", ""},
	{"the same, its memory", "pawld", "pawld", "memory of pawld, MiB", "MiB", ""},
	{"so many shards, a hundred for each worker, all counts in a TTL, for each shard", "shards", "pawl", "the counts of all workers in a TTL, for each shard: server CPU, µs", "µs of the server's CPU", "grows with the workers: longer TTLs, or several names"},
	{"the same, a plan", "shards", "pawl", "a plan without one worker, of all: ms", "ms", ""},
	{"the same, a list of the queues, of which the workers make about one in eight TTLs together", "shards", "pawl", "a list, of all: bytes", "bytes", ""},
	{"so many schedules at rest", "schedules", "pawl", "goroutines for each", "goroutines each, and no requests", ""},
	{"so many missed times that are run, each", "missed", "pawl", "calls of Next", "calls of Next", ""},
}

// table says of each what it costs at the two greatest sizes, and how it grows.
func (g growths) table() (string, error) {
	var b strings.Builder
	b.WriteString("| | size | figure | ten times the size | slope | advice | from |\n|---|---:|---:|---:|---:|---|---|\n")
	for _, row := range grows {
		l, err := g.line(row.scenario, row.kit, row.what)
		if err != nil {
			return "", err
		}
		slope := "0"
		if l.values[0] > 0 && l.values[1] > 0 {
			slope = strings.Replace(fmt.Sprintf("%.1f", l.slope()), "-0.0", "0.0", 1)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s %s | %s | %s | `%s` |\n", row.thing, grouped(l.sizes[0]), short(l.values[0]), short(l.values[1]), row.unit,
			slope, row.advice, row.scenario)
	}
	return b.String(), nil
}

// short is a figure with the digits that it is worth.
func short(x float64) string {
	switch {
	case x >= 100:
		return grouped(int(worth(x)))
	case x >= 10 || x == math.Trunc(x):
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}
