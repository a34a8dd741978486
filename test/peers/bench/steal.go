//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
)

// mostStolen is the greatest share of the machine that a hypervisor may give to others during a
// run. A run with more has little meaning.
const mostStolen = 0.1

// maxAgain is how often such a run is repeated at most.
const maxAgain = 3

// steal counts the runs during which others on the host used too much of the machine.
type steal struct {
	again     int // repeated
	disturbed int // that count all the same
}

// undisturbed makes a run, and repeats it, whichever kit's it is, if others used too much of
// the machine according to clock. If they always did, the run that was disturbed least counts.
func (s *steal) undisturbed(o order, clock func() (machineTime, error), take func(order) ([]figures, error)) ([]figures, error) {
	tag := o.Tag
	var best []figures
	var least float64
	for again := 0; ; again++ {
		if again > 0 {
			o.Tag = fmt.Sprintf("%sa%d", tag, again)
		}
		before, err := clock()
		if err != nil {
			return nil, err
		}
		got, err := take(o)
		if err != nil {
			return nil, err
		}
		after, err := clock()
		if err != nil {
			return nil, err
		}
		stolen := after.stolenSince(before)
		if stolen <= mostStolen {
			return got, nil
		}
		if best == nil || stolen < least {
			best, least = got, stolen
		}
		if again == maxAgain {
			s.disturbed++
			return best, nil
		}
		s.again++
		fmt.Fprintf(os.Stderr, "again: others had %.0f %% of the machine: %s, %s\n", 100*stolen, o.Scenario.Name, o.Kit)
	}
}

// machineTime is what the kernel counts for all processors, in ticks.
type machineTime struct{ all, stolen float64 }

// readMachineTime reads the first line of /proc/stat.
func readMachineTime() (t machineTime, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var user, nice, system, idle, iowait, irq, softirq float64
	if _, err := fmt.Sscanf(line, "cpu %f %f %f %f %f %f %f %f", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &t.stolen); err != nil {
		return t, fmt.Errorf("/proc/stat: %w", err)
	}
	t.all = user + nice + system + idle + iowait + irq + softirq + t.stolen
	return t, nil
}

// stolenSince is the share of the time from before to t that was stolen.
func (t machineTime) stolenSince(before machineTime) float64 {
	if t.all <= before.all {
		return 0
	}
	return (t.stolen - before.stolen) / (t.all - before.all)
}

// others says what they had of the machine, and nothing if that was little.
func (s *steal) others() string {
	if s.again+s.disturbed == 0 {
		return ""
	}
	return fmt.Sprintf(" Other tenants of\nthe host took more than a tenth of the CPU during %d turns, which were repeated, and during %d that are counted nevertheless.", s.again, s.disturbed)
}
