package fencing

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

// A call is one admission.
type call struct {
	t      Token
	shared bool
}

// A made is a storage for one resource, made for each history, and its admissions, taken step by
// step: each step reads or writes shared memory once, and steps of other calls come between.
type made func() (admission func(t Token, shared bool) func() (admitted, done bool))

// stepwise are the registers of a Gate if one step reads both, and the next decides and writes
// both.
func stepwise() func(Token, bool) func() (bool, bool) {
	r := newRegisters("r", pair{})
	return func(t Token, shared bool) func() (bool, bool) {
		var was *pair
		return func() (bool, bool) {
			if was == nil {
				was = r.pair.Load()
				return false, false
			}
			seen, done := r.decide(was, t, shared)
			was = nil
			return compare("r", t, seen, shared) == nil, done
		}
	}
}

// apart are two registers that an exclusive token raises one after the other.
func apart() func(Token, bool) func() (bool, bool) {
	var p pair
	return func(t Token, shared bool) func() (bool, bool) {
		second := false
		return func() (bool, bool) {
			switch {
			case shared && !second:
				second = p.exclusive < t
				return false, !second
			case shared:
				p.highest = max(p.highest, t)
				return true, true
			case second:
				p.exclusive = max(p.exclusive, t)
				return true, true
			}
			second = p.highest <= t
			p.highest = max(p.highest, t)
			return false, !second
		}
	}
}

// An event is the begin or the end of a call.
type event struct {
	call     int
	end      bool
	admitted bool
}

// histories runs each order of the calls' steps, and returns what is impossible for a storage that
// takes each call in one step.
func histories(m made, calls []call) (all int, impossible []string) {
	var order []int
	var extend func()
	extend = func() {
		events, pending := replay(m, calls, order)
		if len(pending) == 0 {
			all++
			if !linearizable(calls, events) {
				impossible = append(impossible, fmt.Sprint(describe(calls, events)))
			}
			return
		}
		for _, i := range pending {
			order = append(order, i)
			extend()
			order = order[:len(order)-1]
		}
	}
	extend()
	return all, impossible
}

// replay runs steps in an order, and returns which calls have not ended.
func replay(m made, calls []call, order []int) (events []event, pending []int) {
	admission := m()
	steps := make([]func() (bool, bool), len(calls))
	ended := make([]bool, len(calls))
	for _, i := range order {
		if steps[i] == nil {
			steps[i] = admission(calls[i].t, calls[i].shared)
			events = append(events, event{call: i})
		}
		if admitted, done := steps[i](); done {
			ended[i] = true
			events = append(events, event{i, true, admitted})
		}
	}
	for i := range calls {
		if !ended[i] {
			pending = append(pending, i)
		}
	}
	return events, pending
}

// linearizable reports whether some order of the calls, each in one step between its begin and its
// end, has these results.
func linearizable(calls []call, events []event) bool {
	results := make([]bool, len(calls))
	before := make([][]int, len(calls)) // who had ended when it began
	var ended []int
	for _, e := range events {
		if e.end {
			ended, results[e.call] = append(ended, e.call), e.admitted
			continue
		}
		before[e.call] = slices.Clone(ended)
	}
	var fits func(m truth, done []int) bool
	fits = func(m truth, done []int) bool {
		if len(done) == len(calls) {
			return true
		}
		for i, c := range calls {
			first := slices.ContainsFunc(before[i], func(j int) bool { return !slices.Contains(done, j) })
			if slices.Contains(done, i) || first || m.stale("r", c.t, c.shared) == results[i] {
				continue
			}
			next := truth{"r": m["r"]}
			if results[i] {
				next.admitted("r", c.t, c.shared)
			}
			if fits(next, append(slices.Clone(done), i)) {
				return true
			}
		}
		return false
	}
	return fits(truth{}, nil)
}

func describe(calls []call, events []event) (text []string) {
	for _, e := range events {
		c := calls[e.call]
		text = append(text, fmt.Sprintf("%d shared=%t end=%t admitted=%t", c.t, c.shared, e.end, e.admitted))
	}
	return text
}

// mixtures are all sets of three admissions of three tokens in both modes.
func mixtures() (all [][]call) {
	var kinds []call
	for t := Token(1); t <= 3; t++ {
		kinds = append(kinds, call{t: t}, call{t: t, shared: true})
	}
	for i := range kinds {
		for j := i; j < len(kinds); j++ {
			for k := j; k < len(kinds); k++ {
				all = append(all, []call{kinds[i], kinds[j], kinds[k]})
			}
		}
	}
	return all
}

// rule: K2
func TestAdmissionsAtOnceHaveTheResultsOfSomeOrder(t *testing.T) {
	total := 0
	for _, calls := range mixtures() {
		n, impossible := histories(stepwise, calls)
		total += n
		if !assert.Empty(t, impossible) {
			return
		}
	}
	t.Logf("%d histories", total)
	assert.Greater(t, total, 4_000)
}

// A shared token, refused by nobody, after an exclusive one was refused because of a greater
// one that is admitted, but not to its end.
func TestRegistersThatAreRaisedOneAfterTheOtherAdmitAStaleSharedToken(t *testing.T) {
	var impossible []string
	for _, calls := range mixtures() {
		_, some := histories(apart, calls)
		impossible = append(impossible, some...)
	}
	assert.NotEmpty(t, impossible)
}
