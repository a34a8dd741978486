package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// costs are what test/peers/bench measured of pawl: seconds of the server's CPU, and
// bytes of its heap.
type costs struct {
	pair      float64 // an acquisition and release that nobody contends
	handoff   float64 // an acquisition, waiting and release in a queue of 100
	long      float64 // the same in a queue of 1,000
	longest   float64 // and of 5,000
	session   float64 // one session with a client to itself, for one TTL
	open      float64 // to make a session
	handover  float64 // release to acquire, at the median, in a queue of 100
	lockHeap  float64 // for each lock held, with its watch
	waitHeap  float64 // for each waiter, with its watches
	leaseHeap float64 // for each session
	lockRAM   float64 // of the client, for each lock held
}

func readCosts(file string) (c costs, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return c, fmt.Errorf("%w (make performance writes it)", err)
	}
	var all map[string]map[string]float64
	if err := json.Unmarshal(text, &all); err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	for _, f := range []struct {
		to             *float64
		scenario, view string
	}{
		{&c.pair, "uncontended-64/64", "serverCPU"},
		{&c.handoff, "chain-100-hold-0s/100", "serverCPU"},
		{&c.long, "chain-1000-hold-0s/1000", "serverCPU"},
		{&c.longest, "chain-5000-hold-0s/5000", "serverCPU"},
		{&c.session, "renewals-apart/200", "serverCPU"},
		{&c.open, "sessions/200", "serverCPU"},
		{&c.handover, "chain-100-hold-0s/100", "p50"},
		{&c.lockHeap, "held-many/100000", "serverHeap"},
		{&c.waitHeap, "chain-5000-hold-0s/5000", "serverHeap"},
		{&c.leaseHeap, "renewals-many/10000", "serverHeap"},
		{&c.lockRAM, "held-many/100000", "heap"},
	} {
		v := all[f.scenario][f.view]
		if v <= 0 {
			return c, fmt.Errorf("%s: no %s of %s: it has to come from a whole run of test/peers/bench", file, f.view, f.scenario)
		}
		*f.to = v
	}
	return c, nil
}
