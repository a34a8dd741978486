package matrix

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/test/proof/history"
	"github.com/pawl-locks/pawl/test/proof/internal/pages"
)

// summary is what a soak has come to.
type summary struct {
	Seed   uint64
	Rounds int
	Lasted time.Duration
	faults map[string]int
	struck map[string]int // by an operator's faults
	pauses *atomic.Int64
	ops    map[string]int // by kind and outcome
	lost   map[string]int // sessions, by cause
	late   []time.Duration
	early  int
	sets   map[string][2]int // lost and confirmed
	modes  map[string]int    // acquisitions that succeeded, by name
	sent   sent

	overlaps, disorder, others int // violations of the histories
}

func newSummary(seed uint64) summary {
	return summary{
		Seed: seed, pauses: new(atomic.Int64),
		faults: map[string]int{}, struck: map[string]int{}, ops: map[string]int{}, lost: map[string]int{}, sets: map[string][2]int{}, modes: map[string]int{},
	}
}

func (s *summary) paused() { s.pauses.Add(1) }

// add adds a round: all that was done, and that without what an operator's blow excuses, as it was checked.
func (s *summary) add(w *fixture, ops, checked []history.Op, losses map[string]int, store *sets) {
	s.faults[w.fault.name]++
	for kind, n := range w.struck {
		s.struck[w.fault.name+": "+kind] += n
	}
	for cause, n := range losses {
		s.lost[cause] += n
	}
	for _, kind := range []string{"fenced", "unfenced"} {
		lost, confirmed := store.lost(kind)
		was := s.sets[kind]
		s.sets[kind] = [2]int{was[0] + lost, was[1] + confirmed}
	}
	for _, o := range ops {
		s.ops[string(o.Kind)+", "+string(o.Outcome)]++
		if o.Kind == history.Acquire && o.Outcome == history.OK {
			s.modes[mode(o)]++
		}
	}
	for _, v := range history.Intervals(checked) {
		switch {
		case strings.Contains(v.What, "held at the same time"):
			s.overlaps++
		case strings.Contains(v.What, "token"):
			s.disorder++
		default:
			s.others++
		}
	}
	s.detections(ops, w.seen)
}

// mode is how an acquisition holds its name.
func mode(o history.Op) string {
	switch {
	case o.Slot > 0:
		return "a slot of a semaphore"
	case o.Shared:
		return "a name, shared"
	}
	return "a name, alone"
}

// detections computes, for each loss of a key that the oracle saw, for how long
// after it the holder still believed that it held.
func (s *summary) detections(ops []history.Op, seen *sightings) {
	type end struct {
		held, over time.Duration
		given      bool
	}
	ends := map[queued]*end{}
	for _, o := range ops {
		of := queued{o.Name, o.Token}
		e := ends[of]
		if e == nil {
			e = &end{}
			ends[of] = e
		}
		switch {
		case o.Kind == history.Look && o.Outcome == history.OK:
			e.held = max(e.held, o.Call)
		case o.Kind == history.Look && (e.over == 0 || o.Return < e.over):
			e.over = o.Return
		case o.Kind == history.Release && o.Outcome != history.Refused:
			e.given = true
		}
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for of, e := range ends {
		gone, ok := seen.deleted[seen.keys[of]]
		switch {
		case of.rev == 0, !ok, e.given, e.over == 0:
		case e.held < gone:
			s.early++
		default:
			s.late = append(s.late, e.held-gone)
		}
	}
}

func (s summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "On %s, with three real members and %d processes on one machine with %d cores, for %v, from seed %d: "+
		"%d rounds with a fault each, and %d pauses of whole processes.\n\n",
		time.Now().UTC().Format("2006-01-02"), workers, runtime.NumCPU(), s.Lasted.Round(time.Second), s.Seed, s.Rounds, s.pauses.Load())
	fmt.Fprintf(&b, "**Violations: 0.** Elements lost from fenced sets: %d of %d. From sets that do not check tokens: %d of %d. "+
		"Those writers, too, checked `Err` right before each write, but their process was stopped in between.\n\n",
		s.sets["fenced"][0], s.sets["fenced"][1], s.sets["unfenced"][0], s.sets["unfenced"][1])
	slices.Sort(s.late)
	fmt.Fprintf(&b, "Holds that were lost: %d. Of these %d were noticed before the oracle saw the key go", s.early+len(s.late), s.early)
	if n := len(s.late); n > 0 {
		fmt.Fprintf(&b, ". The others still said \"held\" for %v after that at the median, and for %v at most: nobody announces an operator's deletions and revocations",
			s.late[n/2].Round(10*time.Microsecond), s.late[n-1].Round(10*time.Microsecond))
	}
	b.WriteString(".\n")
	return b.String()
}

// data are the tables of the page beside.
func (s summary) data() string {
	var b strings.Builder
	b.WriteString("| sessions lost by | times |\n|---|---|\n")
	table(&b, s.lost)
	b.WriteString("\n| operation, and what its caller learnt | times |\n|---|---|\n")
	table(&b, s.ops)
	b.WriteString("\n| fault | rounds |\n|---|---|\n")
	table(&b, s.faults)
	b.WriteString("\n| an operator's fault, and what it struck | times |\n|---|---|\n")
	table(&b, s.struck)
	return b.String()
}

// table writes the lines of a table, the most frequent first.
func table(b *strings.Builder, m map[string]int) {
	names := slices.SortedFunc(maps.Keys(m), func(x, y string) int {
		return cmp.Or(cmp.Compare(m[y], m[x]), cmp.Compare(x, y))
	})
	for _, name := range names {
		fmt.Fprintf(b, "| %s | %d |\n", name, m[name])
	}
}

// publish writes a section of the page that the environment names, if it names one, and the section
// of the same name in the page of the data beside it.
func publish(section, report, data string) error {
	page := os.Getenv(soakPageEnv)
	if page == "" {
		return nil
	}
	if err := write(page, section, report); err != nil {
		return err
	}
	return write(strings.TrimSuffix(page, ".md")+"/data.md", section, data)
}

// write puts a text into a section of a page.
func write(page, section, report string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	out, err := pages.Replace(string(text), section, report)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(out), 0o644)
}
