//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A section is a part of the page. Without a body it is left out.
type section struct{ title, text, body string }

// write puts the page and the plots under dir.
func (r *results) write(dir string) error {
	if err := r.draw(filepath.Join(dir, "performance")); err != nil {
		return err
	}
	figures, err := json.MarshalIndent(r.medians(), "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "performance", "figures.json"), append(figures, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "performance", "data.md"), []byte(r.data()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "performance.md"), []byte(r.page()), 0o644)
}

// medians are the figures of pawl, for test/peers/scale: by scenario, size and view.
func (r *results) medians() map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	for scenario, of := range r.got {
		if len(of[ours]) == 0 {
			continue
		}
		for _, f := range of[ours][0] {
			m := map[string]float64{}
			for name, view := range map[string]func(figures) float64{"p50": figures.p50, "p99": figures.p99, "cpu": figures.cpu,
				"serverCPU": figures.serverCPU, "heap": figures.heap, "serverHeap": figures.serverHeap, "throughput": figures.throughput} {
				m[name] = r.spread(scenario, ours, f.N, view).median
			}
			all[fmt.Sprintf("%s/%d", scenario, f.N)] = m
		}
	}
	return all
}

// page is what a user decides by, in Markdown.
func (r *results) page() string {
	return fmt.Sprintf(header, r.began.UTC().Format("2006-01-02"), r.rounds, r.took.Round(time.Second), machine(),
		r.filesystem, r.sync.Round(time.Microsecond), version("go.etcd.io/etcd/server/v3"), version("go.etcd.io/etcd/client/v3"), r.steal.others()) +
		join(
			section{"In short", briefText, r.brief()},
			section{"Uncontended locks", uncontendedText, r.table("workers", workers, operationColumns) + r.image("throughput.svg", "performance/")},
			section{"A handover while others write", busyText, r.table("operation", busyPoints(), busyColumns) + r.image("busy.svg", "performance/")},
			section{"The cost budget", budgetText, r.budget()},
			section{"What is missed", missedText, r.misses(slices.Concat(targets(), kept()))},
		)
}

// brief is the few figures that a user compares first.
func (r *results) brief() string {
	handover := point{busyName(1, 0, shortly), handovers(shortly)}
	var b strings.Builder
	for _, row := range []struct {
		what string
		at   point
		column
	}{
		{"uncontended locks a second, 1 worker", workers[0], operationColumns[0]},
		{"the same, 8 workers", workers[1], operationColumns[0]},
		{"the same, 64 workers", workers[2], operationColumns[0]},
		{"requests for each of these", workers[2], operationColumns[3]},
		{"client CPU for each, µs", workers[2], operationColumns[4]},
		{"release to acquire at the median, ms; the waiter came 10 ms before", handover, busyColumns[0]},
		{"client memory for each lock held, B", point{"held", 10_000}, standingColumns[0]},
	} {
		if len(r.of(row.at.scenario, ours, row.at.n)) == 0 || len(r.of(row.at.scenario, theirs, row.at.n)) == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row.what, r.cell(row.at, ours, row.column, false), r.cell(row.at, theirs, row.column, false))
	}
	if b.Len() == 0 {
		return ""
	}
	return "| | pawl | clientv3 |\n|---|---:|---:|\n" + b.String()
}

// data is the rest of what was measured.
func (r *results) data() string {
	return dataHeader + join(append([]section{
		{"With round trips of 2 ms", delayedText, r.table("workers", delayedPoints(delays[0]), operationColumns) + r.image("throughput-2ms.svg", "")},
		{"With round trips of 10 ms", "", r.table("workers", delayedPoints(delays[1]), operationColumns) + r.image("throughput-10ms.svg", "")},
		{"When requests cannot be shared, or fail", faultyText, r.table("operation", faultyPoints(), faultyColumns)},
		{"A queue of waiters, locks held for no time", chainText, r.table("waiters", charts()[1].points, chainColumns) + r.image("handoff.svg", "")},
		{"A queue of waiters, locks held for 5 ms", "", r.table("waiters", charts()[2].points, chainColumns) + r.image("handoff-5ms.svg", "")},
		{"A queue of waiters in several processes", apartText, r.table("queue", apartPoints(), apartColumns)},
		{"On three members", threeText, strings.TrimLeft(r.table("workers", onThreePoints(workers), threeColumns)+"\n"+r.table("queue", onThreePoints(chained), chainColumns[:4]), "\n")},
		{"With TLS", tlsText, r.table("workers", tlsPoints(1), operationColumns)},
		{"With TLS, on three members", "", r.table("workers", tlsPoints(3), threeColumns)},
		{"Shards of one name", shardsText, r.table("operation", shardPoints(), shardColumns)},
		{"TryAcquire, and a new session", tryText, r.table("operation", []point{{"try-held", 1}, {"try-free", 1}, {"sessions", 200}}, operationColumns)},
		{"Locks held", heldText, r.table("locks", charts()[3].points, standingColumns) + r.image("memory.svg", "")},
		{"Sessions kept alive", renewalsText, r.table("sessions", append([]point{{"renewals-apart", 200}}, charts()[4].points...), renewalColumns) + r.image("renewals.svg", "")},
	}, append(r.modeSections(), r.daemonSections()...)...)...)
}

// join writes those sections that have a body.
func join(sections ...section) string {
	var b strings.Builder
	for _, section := range sections {
		if section.body != "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s%s", section.title, section.text, section.body)
		}
	}
	return b.String()
}

func (r *results) image(file, folder string) string {
	for _, c := range charts() {
		if c.file == file && r.hasAny(c) {
			return fmt.Sprintf("\n![%s](%s%s)\n", c.title, folder, file)
		}
	}
	return ""
}

// A column is one view in a table.
type column struct {
	title string
	view  func(figures) float64
	scale float64
}

var (
	operationColumns = []column{{"a second", figures.throughput, 1}, {"p50, ms", figures.p50, 1e3}, {"p99, ms", figures.p99, 1e3},
		{"requests", figures.requests, 1}, {"client CPU, µs", figures.cpu, 1e6}, {"server CPU, µs", figures.serverCPU, 1e6}, {"allocations", figures.allocs, 1},
		{"bytes to the server", figures.bytesIn, 1}, {"bytes from it", figures.bytesOut, 1}}
	chainColumns = []column{{"drain, ms", figures.wall, 1e3}, {"release to acquire p50, ms", figures.p50, 1e3}, {"p99, ms", figures.p99, 1e3},
		{"client CPU, µs", figures.cpu, 1e6}, {"server CPU, µs", figures.serverCPU, 1e6}, {"allocations", figures.allocs, 1},
		{"bytes to the server", figures.bytesIn, 1}, {"bytes from it", figures.bytesOut, 1}, {"client heap per waiter, KiB", figures.heap, 1. / 1024},
		{"server heap per waiter, KiB", figures.serverHeap, 1. / 1024}}
	apartColumns = chainColumns[:8]                                                         // memory is that of many processes
	threeColumns = append(operationColumns[:3:3], operationColumns[4], operationColumns[6]) // without what one of the three members counts
	busyColumns  = []column{{"release to acquire p50, ms", figures.p50, 1e3}, {"p90, ms", figures.p90, 1e3}, {"p99, ms", figures.p99, 1e3}}
	shardColumns = []column{{"without an owner p50, ms", figures.p50, 1e3}, {"p99, ms", figures.p99, 1e3}, {"requests", figures.requests, 1},
		{"until all is even, and 1 s, s", figures.wall, 1}, {"client CPU, ms", figures.cpu, 1e3}, {"server CPU, ms", figures.serverCPU, 1e3}}
	faultyColumns   = []column{{"p50, ms", figures.p50, 1e3}, {"p99, ms", figures.p99, 1e3}, {"share, %", figures.share, 100}}
	standingColumns = []column{{"client heap per lock, B", figures.heap, 1}, {"goroutines per lock", figures.goroutines, 1},
		{"server heap per lock, B", figures.serverHeap, 1}, {"client CPU to acquire, µs", figures.cpu, 1e6}, {"server CPU, µs", figures.serverCPU, 1e6}}
	renewalColumns = []column{{"client CPU, µs", figures.cpu, 1e6}, {"server CPU, µs", figures.serverCPU, 1e6}, {"client heap per session, KiB", figures.heap, 1. / 1024},
		{"server heap per session, KiB", figures.serverHeap, 1. / 1024}, {"goroutines per session", figures.goroutines, 1}}
)

// table has a row for each point and kit, with the median of the rounds, and after the first column
// its extremes.
func (r *results) table(what string, points []point, columns []column) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | |", what)
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---:|", len(columns)) + "\n")
	rows := 0
	for _, p := range points {
		name := count(p.n)
		switch {
		case what == "operation", what == "queue":
			name = p.scenario
		case p.scenario == "renewals-apart":
			name += ", 1 each"
		}
		for _, kit := range append(all, batched, dutiful, lone, plain, served, gatewayed) {
			if len(r.of(p.scenario, kit, p.n)) == 0 {
				continue
			}
			rows++
			fmt.Fprintf(&b, "| %s | %s |", name, kit)
			for i, c := range columns {
				fmt.Fprintf(&b, " %s |", r.cell(p, kit, c, i == 0))
			}
			b.WriteString("\n")
			name = ""
		}
	}
	if rows == 0 {
		return ""
	}
	return b.String()
}

func (r *results) cell(p point, kit string, c column, extremes bool) string {
	s := r.spread(p.scenario, kit, p.n, c.view)
	text := figure(s.median * c.scale)
	if extremes && s.least < s.most {
		text += fmt.Sprintf(" (%s–%s)", figure(s.least*c.scale), figure(s.most*c.scale))
	}
	return text
}

// figure formats a number with its significant digits.
func figure(x float64) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x):
		return "–"
	case a >= 100:
		return count(int(math.Round(x)))
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	case a < 0.005:
		return "0"
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

// count formats a whole number with separated thousands.
func count(n int) string {
	if n < 0 {
		return "-" + count(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", count(n/1000), n%1000)
}

func machine() string {
	model := "unknown CPU"
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if name, value, _ := strings.Cut(s.Text(), ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores (%s)", runtime.NumCPU(), model)
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return "of this module"
}
