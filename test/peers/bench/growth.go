//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// slope is the exponent with which a figure grows with the size, between the two greatest sizes: what does not
// grow hides at the lesser ones what does. It is 0 if the figure does not grow, 1 if as the size does, 2 if as its
// square.
func slope(sizes []int, values []float64) float64 {
	n := len(sizes) - 1
	if n < 1 || values[n-1] <= 0 || values[n] <= 0 {
		return math.NaN()
	}
	return math.Log(values[n]/values[n-1]) / math.Log(float64(sizes[n])/float64(sizes[n-1]))
}

// steep is by how much a slope may be above what is expected: less is the noise of a measurement.
const steep = 0.25

// A playing is one thing that one client played, by size.
type playing struct {
	Date  string
	Sizes []played
}

type played struct {
	N      int
	Gauges []gauge
}

// playings are by scenario and kit.
type playings map[string]map[string]playing

// played is what a run has played.
func (r *results) played() playings {
	all := playings{}
	for scenario, of := range r.got {
		all[scenario] = map[string]playing{}
		for kit, got := range of {
			p := playing{Date: r.began.UTC().Format("2006-01-02")}
			for _, f := range got[0] {
				p.Sizes = append(p.Sizes, played{f.N, slices.DeleteFunc(f.measures(), func(g gauge) bool { return math.IsNaN(g.Value) })})
			}
			all[scenario][kit] = p
		}
	}
	return all
}

// page is what was played, in Markdown.
func (all playings) page(of []growth) string {
	var b strings.Builder
	fmt.Fprintf(&b, growthHeader, machine(), version("go.etcd.io/etcd/server/v3"), steep)
	for _, g := range of {
		for _, kit := range g.kits {
			if p, ok := all[g.Name][kit]; ok {
				fmt.Fprintf(&b, "\n## %s: %s\n\n`%s`, %s.\n\n%s", g.title, kit, strings.TrimPrefix(g.Name, "growth-"), p.Date, p.table())
			}
		}
	}
	return b.String()
}

// table has a row for each gauge, and a column for each size.
func (p playing) table() string {
	var b strings.Builder
	b.WriteString("| |")
	var sizes []int
	for _, at := range p.Sizes {
		fmt.Fprintf(&b, " %s |", count(at.N))
		sizes = append(sizes, at.N)
	}
	b.WriteString(" slope |\n|---|" + strings.Repeat("---:|", len(sizes)+1) + "\n")
	for _, row := range p.Sizes[0].Gauges {
		var values []float64
		fmt.Fprintf(&b, "| %s |", row.What)
		for _, at := range p.Sizes {
			v := at.value(row.What)
			values = append(values, v)
			fmt.Fprintf(&b, " %s |", figure(v))
		}
		expected := 0.
		if row.All {
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

// value is that of a gauge, or NaN.
func (p played) value(what string) float64 {
	for _, g := range p.Gauges {
		if g.What == what {
			return g.Value
		}
	}
	return math.NaN()
}

// writeGrowth writes growth.md, and growth.json for test/peers/scale, to a folder, or prints the page. What
// this run did not play stays as it is there.
func (r *results) writeGrowth(folder string) error {
	of := growths(r.growth)
	if folder == "" {
		fmt.Print(r.played().page(of))
		return nil
	}
	file, all := filepath.Join(folder, "growth.json"), playings{}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &all)
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	maps.Copy(all, r.played())
	if text, err = json.MarshalIndent(all, "", "\t"); err != nil {
		return err
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "growth.md"), []byte(all.page(of)), 0o644)
}

// growthScenarios are the scenarios of all.
func growthScenarios(all []growth) (list []scenario) {
	for _, g := range all {
		list = append(list, g.scenario)
	}
	return slices.DeleteFunc(list, func(s scenario) bool { return len(s.Sizes) == 0 })
}

const growthHeader = `# What grows

Written by ` + "`make growth`" + `, on a machine with %s, etcd %s. Each thing is played by one client process at sizes that differ by ten,
one after another on the same names, without a compaction. The slope is the exponent with which a figure grows from the last size but one to
the greatest: 0 if it does not grow, 1 if as the size does, 2 if as its square. Figures are of one operation, unless a row says that they are of
all. A slope that is more than %.2f above 0, or above 1 for all, is bold. Times and CPU were measured beside whatever else the machine did, and the server's CPU is
counted in steps of 10 ms; requests, bytes, keys and goroutines do not depend on that. ` + "`go run ./test/peers/bench -growth 10 -only NAME -o docs/results`" + ` repeats one section.
[Scale](scale.md) says what follows from it.
`
