//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A growth is one thing that is played at sizes that differ by ten.
type growth struct {
	title string
	scenario
}

// growthPatience is how long one client's process may play.
const growthPatience = 40 * time.Minute

// growths are what -growth plays, at sizes up to most times the least.
func growths(most int) (all []growth) {
	add := func(title string, least, bound int, s scenario) {
		for n := least; n <= min(bound, least*most); n *= 10 {
			s.Sizes = append(s.Sizes, n)
		}
		s.Name, s.Members, s.Patience = "growth-"+strings.ReplaceAll(s.Name, " ", "-"), max(s.Members, 1), growthPatience
		if s.TTL == 0 {
			s.TTL = longTTL
		}
		s.turns = 1
		all = append(all, growth{title, s})
	}
	both, own := []string{ours, theirs}, []string{ours}
	add("Acquisitions of one lock by three clients, without a compaction", 1000, 100_000, scenario{Name: "past-lock", Task: "past", Of: "lock", kits: both})
	add("Shared acquisitions of one lock by three clients", 1000, 100_000, scenario{Name: "past-shared", Task: "past", Of: "shared", kits: own})
	add("Terms of one election by three clients", 1000, 100_000, scenario{Name: "past-election", Task: "past", Of: "election", kits: both})
	add("Permits of one semaphore by three clients", 1000, 100_000, scenario{Name: "past-permits", Task: "past", Of: "permits", kits: own})
	add("The life of one client: acquisitions of 64 locks", 1000, 1_000_000, scenario{Name: "life", Task: "life", kits: both})
	add("The life of pawld: acquisitions by 1,000 clients", 1000, 1_000_000, scenario{Name: "pawld", Task: "served-life", TTL: 120 * time.Second, kits: []string{served}})
	add("Waiters of one lock", 100, 100_000, scenario{Name: "queue", Task: "queue-of", kits: own})
	add("Locks that one client holds", 100, 10_000, scenario{Name: "held", Task: "held-by-one", TTL: 10 * time.Second, kits: own})
	add("Sessions of one client", 10, 1000, scenario{Name: "sessions", Task: "renewals", TTL: 15 * time.Second, Span: 15 * time.Second, kits: both})
	add("Clients of one pawld, each with a lock", 10, 1000, scenario{Name: "clients", Task: "served-idle", TTL: 15 * time.Second, Span: 15 * time.Second, kits: []string{served}})
	add("Shards, a hundred for each worker", 100, 100_000, scenario{Name: "shards", Task: "shards-of", kits: own})
	add("Schedules at rest, each with a name", 10, 1000, scenario{Name: "schedules", Task: "schedules-at-rest", Span: 10 * time.Second, kits: own})
	add("Times that a schedule missed, all of which are run", 10, 10_000, scenario{Name: "missed", Task: "schedules-missed", kits: own})
	add("Acquisitions of one lock by three clients, on three members", 100, 10_000, scenario{Name: "past on three", Task: "past", Of: "lock", Members: 3, kits: both})
	return all
}

// A gauge is a figure of a growth. If all is set it is of all that there is, and otherwise of one
// operation, so that it should not grow.
type gauge struct {
	What  string
	Value float64
	All   bool
}

func (f *figures) note(what string, value float64) {
	f.More = append(f.More, gauge{What: what, Value: value})
}

func (f *figures) noteAll(what string, value float64) {
	f.More = append(f.More, gauge{What: what, Value: value, All: true})
}

// measures are what is compared of f: what its task noted, or what every scenario measures.
func (f figures) measures() []gauge {
	if len(f.More) > 0 {
		return f.More
	}
	of := []gauge{
		{"client CPU, µs", f.cpu() * 1e6, false}, {"server CPU, µs", f.serverCPU() * 1e6, false}, {"requests", f.requests(), false},
		{"messages of watches", f.watches(), false}, {"bytes to the server", f.bytesIn(), false}, {"bytes from the server", f.bytesOut(), false},
		{"client heap, B", f.Heap, false}, {"goroutines", f.Goroutines, false},
	}
	if f.DaemonCPU > 0 {
		of = append(of, gauge{"pawld CPU, µs", f.daemonCPU() * 1e6, false})
	}
	return of
}

// slope is the exponent with which a figure grows with the size, from the least size to the greatest:
// 0 if it does not, 1 if as the size does, 2 if as its square.
func slope(sizes []int, values []float64) float64 {
	n := len(sizes) - 1
	if n < 1 || values[0] <= 0 || values[n] <= 0 {
		return math.NaN()
	}
	return math.Log(values[n]/values[0]) / math.Log(float64(sizes[n])/float64(sizes[0]))
}

// steep is by how much a slope may be above what is expected: less is the noise of a measurement.
const steep = 0.25

// growthPage is what was measured of all, in Markdown.
func (r *results) growthPage(all []growth) string {
	var b strings.Builder
	fmt.Fprintf(&b, growthHeader, r.began.UTC().Format("2006-01-02"), r.took.Round(time.Second), machine(), version("go.etcd.io/etcd/server/v3"), steep)
	for _, g := range all {
		for _, kit := range g.kits {
			if got := r.got[g.Name][kit]; len(got) > 0 {
				fmt.Fprintf(&b, "\n## %s: %s\n\n%s", g.title, kit, growthTable(got[0]))
			}
		}
	}
	return b.String()
}

// growthTable has a row for each measure, and a column for each size.
func growthTable(got []figures) string {
	var b strings.Builder
	b.WriteString("| |")
	for _, f := range got {
		fmt.Fprintf(&b, " %s |", count(f.N))
	}
	b.WriteString(" slope |\n|---|" + strings.Repeat("---:|", len(got)+1) + "\n")
	var sizes []int
	for _, f := range got {
		sizes = append(sizes, f.N)
	}
	for i, m := range got[0].measures() {
		var values []float64
		fmt.Fprintf(&b, "| %s |", m.What)
		for _, f := range got {
			v := f.measures()[i].Value
			values = append(values, v)
			fmt.Fprintf(&b, " %s |", figure(v))
		}
		expected := 0.
		if m.All {
			expected = 1
		}
		text := "–"
		if s := slope(sizes, values); !math.IsNaN(s) {
			if text = fmt.Sprintf("%.2f", s); s > expected+steep {
				text = "**" + text + "**"
			}
		}
		fmt.Fprintf(&b, " %s |\n", text)
	}
	return b.String()
}

// writeGrowth writes growth.md, and growth.json for test/peers/scale, to a folder, or prints the page.
func (r *results) writeGrowth(folder string) error {
	page := r.growthPage(growths(r.growth))
	if folder == "" {
		fmt.Print(page)
		return nil
	}
	data, err := json.MarshalIndent(r.growthData(), "", "\t")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(folder, "growth.json"), append(data, '\n'), 0o644), os.WriteFile(filepath.Join(folder, "growth.md"), []byte(page), 0o644))
}

// growthData are pawl's figures, for test/peers/scale: by scenario, measure and size.
func (r *results) growthData() map[string]map[string]map[int]float64 {
	all := map[string]map[string]map[int]float64{}
	for scenario, of := range r.got {
		for kit, got := range of {
			key := scenario
			if kit != ours {
				key += ", " + kit
			}
			all[key] = map[string]map[int]float64{}
			for _, f := range got[0] {
				for _, m := range f.measures() {
					if all[key][m.What] == nil {
						all[key][m.What] = map[int]float64{}
					}
					if !math.IsNaN(m.Value) {
						all[key][m.What][f.N] = m.Value
					}
				}
			}
		}
	}
	return all
}

// growthScenarios are the scenarios of all.
func growthScenarios(all []growth) (list []scenario) {
	for _, g := range all {
		list = append(list, g.scenario)
	}
	return slices.DeleteFunc(list, func(s scenario) bool { return len(s.Sizes) == 0 })
}

const growthHeader = `# What grows

Written by ` + "`make growth`" + ` on %s, in %v, on a machine with %s, etcd %s. Each thing is played by one client
process at sizes that differ by ten, one after another on the same names, without a compaction. The slope is the exponent with which a figure grows
from the least size to the greatest: 0 if it does not grow, 1 if as the size does, 2 if as its square. Figures are of one operation, unless
a row says that they are of all. A slope that is more than %.2f above 0, or above 1 for all, is bold. Times and CPU were measured beside whatever else
the machine did; requests, bytes, keys and goroutines do not depend on that.
`
