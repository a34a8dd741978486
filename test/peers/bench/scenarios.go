//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"
)

// A scenario is one measurement, made for each kit.
type scenario struct {
	Name  string
	Task  string        // the name of the task of a client's process
	Sizes []int         // of workers, waiters, locks or sessions: one after another in one process
	Hold  time.Duration // of each lock of a chain
	Limit int           // of the handoffs of a chain; all if 0

	Processes int           // that waiters are spread over
	Clients   int           // of each of those
	Writes    int           // of others, a second
	Ahead     time.Duration // how long before a release a waiter comes
	Of        string        // what is handed over; a lock if ""
	OneClient bool          // both sessions are one client's

	Names  int // that those wait for; one if 0
	Shards int // that workers share out

	Span     time.Duration // how long a task lasts that does not end by itself
	TTL      time.Duration
	RTT      time.Duration // added to each of a client's round trips
	Members  int           // of the cluster; one if 0
	Patience time.Duration // how long a client's process may take; five minutes if 0
	TLS      bool          // between clients and server
	kits     []string
	turns    int // how many runs each kit makes in a round
	rounds   int // in how many of the first rounds; in all if 0
}

// workers are the scenarios in which each worker acquires a separate lock.
var workers = []point{{"uncontended-1", 1}, {"uncontended-8", 8}, {"uncontended-64", 64}, {"uncontended-512", 512}}

// guards is in how many rounds what an earlier version gained is measured again.
const guards = 3

const longTTL = 300 * time.Second // so that there are no renewals

var (
	all   = []string{ours, oneSession, theirs, bare, watchful}
	three = []string{ours, theirs, bare}
	five  = []string{ours, theirs, bare, batched, lone}
	two   = []string{ours, lone}
)

// scenarios returns all of them, or a quick selection if short is set.
func scenarios(short bool) []scenario {
	list := []scenario{
		{Name: "uncontended-1", Task: "uncontended", Sizes: []int{1}, Span: time.Second / 2, kits: five, turns: 3},
		{Name: "uncontended-8", Task: "uncontended", Sizes: []int{8}, Span: time.Second / 2, kits: five, turns: 3},
		{Name: "uncontended-64", Task: "uncontended", Sizes: []int{64}, Span: time.Second, kits: append(five, dutiful), turns: 3},
		{Name: "uncontended-512", Task: "uncontended", Sizes: []int{512}, Span: time.Second, kits: five, turns: 3},
		{Name: "try-held", Task: "try-held", Sizes: []int{1}, Span: 400 * time.Millisecond, kits: three, turns: 1},
		{Name: "try-free", Task: "try-free", Sizes: []int{1}, Span: 400 * time.Millisecond, kits: three, turns: 1},
		{Name: "sessions", Task: "sessions", Sizes: []int{200}, kits: three, turns: 1},
	}
	list = append(list, delayed()...)
	list = append(list, faulty()...)
	list = append(list, chains(short)...)
	list = append(list, aparts()...)
	list = append(list, onThree(list)...)
	list = append(list, withTLS()...)
	list = append(list, busyScenarios()...)
	list = append(list, shardScenarios()...)
	list = append(list,
		scenario{Name: "held", Task: "held", Sizes: []int{1_000, 10_000}, kits: three, turns: 1},
		scenario{Name: "renewals", Task: "renewals", Sizes: []int{100, 500, 1_000}, TTL: 3 * time.Second, Span: 3 * time.Second, kits: three, rounds: guards},
		scenario{Name: "renewals-apart", Task: "renewals-apart", Sizes: []int{200}, TTL: 3 * time.Second, Span: 3 * time.Second, kits: three, rounds: guards},
	)
	if !short {
		list = append(list,
			scenario{Name: "held-many", Task: "held", Sizes: []int{100_000}, kits: three, rounds: 1},
			scenario{Name: "renewals-many", Task: "renewals", Sizes: []int{2_000, 10_000}, TTL: 20 * time.Second, Span: 20 * time.Second, kits: three, rounds: 1},
		)
	}
	list = append(list, modes(short)...)
	list = append(list, daemons(short)...)
	for i := range list {
		s := &list[i]
		s.turns, s.Members = max(s.turns, 1), max(s.Members, 1)
		if s.TTL == 0 {
			s.TTL = longTTL
		}
	}
	return list
}

// chained are the queues of waiters that also run on three members, as workers does.
var chained = []point{{chainName(1_000, 0), 1_000}, {chainName(100, 5*time.Millisecond), 100}}

// onMembers is the name of a scenario on a cluster of so many members.
func onMembers(n int, scenario string) string {
	if n == 1 {
		return scenario
	}
	return fmt.Sprintf("%s-on-%d", scenario, n)
}

// onThreePoints are points on three members.
func onThreePoints(points []point) (all []point) {
	for _, p := range points {
		all = append(all, point{onMembers(3, p.scenario), p.n})
	}
	return all
}

// onThree are those of list that also run on three members.
func onThree(list []scenario) (out []scenario) {
	for _, s := range list {
		if slices.Contains(slices.Concat(workers, chained), point{s.Name, s.Sizes[0]}) {
			s.Name, s.Members, s.kits = onMembers(3, s.Name), 3, three
			if s.Sizes[0] > 8 {
				s.turns = 1
			}
			out = append(out, s)
		}
	}
	return out
}

// delays are round trips, as on networks.
var delays = []time.Duration{2 * time.Millisecond, 10 * time.Millisecond}

// delayed are workers with a separate lock each, behind a network.
func delayed() (list []scenario) {
	for _, rtt := range delays {
		for _, p := range delayedPoints(rtt) {
			list = append(list, scenario{Name: p.scenario, Task: "uncontended", Sizes: []int{p.n}, RTT: rtt,
				Span: time.Second, kits: five, rounds: guards})
		}
	}
	return list
}

func delayedPoints(rtt time.Duration) (all []point) {
	for _, n := range []int{8, 64, 512} {
		all = append(all, point{fmt.Sprintf("round-trip-%v-%d", rtt, n), n})
	}
	return all
}

func faultyPoints() (all []point) {
	for _, s := range faulty() {
		all = append(all, point{s.Name, s.Sizes[0]})
	}
	return all
}

const far = 30 * time.Millisecond // the round trips of a cluster far away

// faulty are scenarios that sharing requests must not make worse, or has to improve, compared
// with sending alone.
func faulty() []scenario {
	return []scenario{
		{Name: "one-name", Task: "one-name", Sizes: []int{500}, RTT: far, kits: two, rounds: guards},
		{Name: "given-up", Task: "given-up", Sizes: []int{500}, RTT: far, kits: two, rounds: guards},
		{Name: "lost-answers", Task: "lost-answers", Sizes: []int{1_000}, RTT: far, kits: two, rounds: guards},
		{Name: "no-space", Task: "no-space", Sizes: []int{200}, kits: two, rounds: guards},
		{Name: firstLockName, Task: firstLockName, Sizes: []int{9}, Members: 3, kits: []string{ours, theirs}},
		{Name: "frozen", Task: "frozen", Sizes: []int{4_000}, Members: 3, Span: 6 * time.Second, kits: two, rounds: guards},
	}
}

// chains are queues of waiters. In the longest only a part takes its turn, because a whole drain
// would take the peer a minute, as each enqueue walks the queue.
func chains(short bool) (list []scenario) {
	sizes := []int{2, 10, 100, 1_000, 5_000}
	if short {
		sizes = sizes[:4]
	}
	for _, hold := range []time.Duration{0, 5 * time.Millisecond} {
		for _, n := range sizes {
			s := scenario{Name: chainName(n, hold), Task: "chain", Sizes: []int{n}, Hold: hold, kits: all}
			if n > 1_000 {
				s.rounds = 1
			}
			switch {
			case n < 100:
				s.kits = three
				s.turns = 2
			case n == 100 && hold == 0: // so few mean little: two runs' CPU differs by 15 %
				s.turns = 5
			case n == 100:
				s.turns = 2
			case n > 100:
				s.Limit = 300
			}
			list = append(list, s)
		}
	}
	return list
}

func chainName(n int, hold time.Duration) string {
	return fmt.Sprintf("chain-%d-hold-%v", n, hold)
}
