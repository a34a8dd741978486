package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/gdamore/tcell/v3"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// maxHolders is how many holders' leases the details have.
const maxHolders = 10

// drawDetails draws all that is known of one name, and returns its holders' leases.
func (v *viewer) drawDetails(now time.Time, width int) (leases []int64) {
	v.put(1, "DETAILS", tcell.StyleDefault.Reverse(true))
	var lines []string
	for _, text := range v.describe(now) {
		lines = append(lines, wrap(text, width)...)
	}
	v.lines = len(lines)
	v.scroll = max(0, min(v.scroll, len(lines)-v.room))
	for i := range min(v.room, len(lines)-v.scroll) {
		v.put(2+i, lines[v.scroll+i], tcell.StyleDefault)
	}
	if l, ok := v.queue(v.details); ok {
		for _, p := range l.Holders()[:min(len(l.Holders()), maxHolders)] {
			leases = append(leases, p.Lease)
		}
	}
	return leases
}

// queue returns the queue with this prefix, if it is not empty.
func (b *board) queue(prefix string) (inspect.NamedQueue, bool) {
	i := slices.IndexFunc(b.snapshot.Queues, func(l inspect.NamedQueue) bool { return l.Prefix == prefix })
	if i < 0 {
		return inspect.NamedQueue{}, false
	}
	return b.snapshot.Queues[i], true
}

// describe says all that is known of the name whose details are shown.
func (v *viewer) describe(now time.Time) []string {
	l, ok := v.queue(v.details)
	t := v.seen[v.details]
	if t == nil {
		t = &tally{name: l.Name, kind: l.Kind()}
	}
	if !ok {
		return append([]string{t.kind + " " + cli.Plain(t.name), "nobody holds it or waits for it"}, t.describe()...)
	}
	r := v.heldRow(l, t, now)
	out := []string{l.Kind() + " " + cli.Plain(l.Name)}
	fact := func(name, value string) {
		if value != "" {
			out = append(out, fmt.Sprintf("%-7s %s", name, value))
		}
	}
	switch holders := l.Holders(); len(holders) {
	case 0:
		fact("holder", "nobody, for now")
	case 1:
		p := holders[0]
		fact("holder", r.holder)
		if p.HasSlot() {
			fact("slot", strconv.Itoa(p.Slot))
		}
		fact("host", cli.Plain(hostOf(p)))
		fact("held", heldCell(r))
		fact("token", strconv.FormatInt(r.token, 10))
		fact("lease", leaseOfPlace(p, r.left))
		fact("key", cli.Plain(p.Key))
		if p.Election {
			fact("value", strconv.Quote(string(p.Value))+cli.More(p))
		}
	default:
		fact("held", cli.Sum(l))
		for _, p := range holders {
			out = append(out, v.holding(l, p, now))
		}
	}
	if mixed := cli.Mixed(l); mixed != "" {
		out = append(out, mixed)
	}
	out = append(out, t.describe()...)
	out = append(out, "", cli.Waiting(l)+" waiting")
	for i, w := range l.Waiters() {
		token := ""
		if cli.HasToken(w) {
			token = fmt.Sprintf("token %d  ", w.Token)
		}
		out = append(out, fmt.Sprintf("%4d  %s  %s%s", i+1, cli.Padded(whom(l, w), 20), token, cli.Plain(hostOf(w))))
	}
	return out
}

// holding says all that is known of one of several holders.
func (v *viewer) holding(l inspect.NamedQueue, p inspect.Position, now time.Time) string {
	what := "holds   "
	if p.HasSlot() {
		what = fmt.Sprintf("slot %-3d", p.Slot)
	}
	d, atMost := heldFor(p, now)
	return fmt.Sprintf("%s  %s  token %d  %s  held %s  lease %s", what, cli.Padded(whom(l, p), 20), p.Token,
		cli.Plain(hostOf(p)), heldCell(topRow{held: d, heldAtMost: atMost}), leaseOfPlace(p, cli.Left(v.leases, p)))
}

// whom names a position with whether it is a reader, and its other names.
func whom(l inspect.NamedQueue, p inspect.Position) string {
	who := cli.Plain(cli.Who(p))
	if p.Mode == inspect.ModeShared {
		who += " (reader)"
	}
	return who + cli.With(l.Name, p)
}

// describe says what was seen of a name.
func (t *tally) describe() []string {
	return []string{fmt.Sprintf("seen    taken %d times, lost %d times; held %s and waited for %s at the mean", t.taken, t.lost, cli.Span(t.held.mean()), cli.Span(t.waits.mean()))}
}

// hostOf is the host of a position's process, or "" if unknown.
func hostOf(p inspect.Position) string {
	if p.Host == "" || p.PID == 0 {
		return p.Host
	}
	return fmt.Sprintf("%s, pid %d", p.Host, p.PID)
}

func leaseOfPlace(p inspect.Position, left string) string {
	if p.Lease == 0 {
		return "none: it stays until somebody deletes it"
	}
	return cli.LeaseHex(p.Lease) + ", " + left + " left"
}

// wrap breaks a text into lines of a width.
func wrap(text string, width int) (lines []string) {
	var b strings.Builder
	used := 0
	for g := displaywidth.StringGraphemes(text); g.Next(); {
		if used+g.Width() > width && used > 0 {
			lines = append(lines, b.String())
			b.Reset()
			used = 0
		}
		b.WriteString(g.Value())
		used += g.Width()
	}
	return append(lines, b.String())
}
