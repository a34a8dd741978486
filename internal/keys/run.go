package keys

import (
	"fmt"
	"strings"
	"time"
)

// A Run is the value of a record: the last run of a name, and what its schedule says. Its first line is
// the due time alone, so that a person who writes the record need write only that.
//
//	2026-01-02T03:00:00Z
//	next 2026-01-02T04:00:00Z
//	failed 2026-01-02T04:00:00Z 3 again 2026-01-02T04:00:12Z
//
// A reader skips a line that it does not know.
type Run struct {
	At     time.Time // the time for which the run was due
	Next   time.Time // the schedule's next time after At; zero if unknown, or if there is none
	Began  bool      // nothing has run yet, and At is when the schedule began to count
	Failed Failed    // the runs that have failed since At; zero if there are none
}

// Failed is what a record says of runs that have failed since the last one that succeeded.
type Failed struct {
	At    time.Time // the time for which the last of them was due
	Times int       // how many have failed
	Again time.Time // not before then is there another run for At
}

const (
	nextLine   = "\nnext "
	beganLine  = "\nbegan"
	failedLine = "\nfailed "
	failedForm = "%s %d again %s"
)

// Value encodes the record. A Next that its form cannot hold is left out.
func (r Run) Value() []byte {
	b := r.At.UTC().AppendFormat(nil, time.RFC3339Nano)
	if next := r.Next.UTC(); !next.IsZero() && next.Year() <= 9999 {
		b = next.AppendFormat(append(b, nextLine...), time.RFC3339Nano)
	}
	if r.Began {
		b = append(b, beganLine...)
	}
	if f := r.Failed; f.Times > 0 {
		b = fmt.Appendf(append(b, failedLine...), failedForm, f.At.UTC().Format(time.RFC3339Nano), f.Times, f.Again.UTC().Format(time.RFC3339Nano))
	}
	return b
}

// ParseRun is the inverse of Value.
func ParseRun(value []byte) (r Run, ok bool) {
	first, rest, _ := strings.Cut(string(value), "\n")
	at, err := time.Parse(time.RFC3339Nano, first)
	if err != nil {
		return Run{}, false
	}
	r.At = at
	for line := range strings.SplitSeq(rest, "\n") {
		if text, ok := strings.CutPrefix(line, nextLine[1:]); ok {
			if next, err := time.Parse(time.RFC3339Nano, text); err == nil {
				r.Next = next
			}
		}
		if text, ok := strings.CutPrefix(line, failedLine[1:]); ok {
			r.Failed = parseFailed(text)
		}
		r.Began = r.Began || line == beganLine[1:]
	}
	return r, true
}

// parseFailed returns the zero Failed for what Value did not write.
func parseFailed(text string) Failed {
	var at, again string
	var f Failed
	if _, err := fmt.Sscanf(text, failedForm, &at, &f.Times, &again); err != nil || f.Times < 1 {
		return Failed{}
	}
	for _, t := range []struct {
		text string
		to   *time.Time
	}{{at, &f.At}, {again, &f.Again}} {
		var err error
		if *t.to, err = time.Parse(time.RFC3339Nano, t.text); err != nil {
			return Failed{}
		}
	}
	return f
}
