package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/gdamore/tcell/v3"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
)

// A column is a column of the screen. On a narrow screen the rightmost ones are dropped first. The
// first two take the remaining width.
type column struct {
	title string
	width int // at least
	right bool
	by    order
	cell  func(topRow) string
}

var columns = []column{
	{"NAME", 24, false, byName, func(r topRow) string { return cli.Plain(r.name) }},
	{"HOLDER", 20, false, -1, func(r topRow) string { return r.holder }},
	{"HELD", 8, true, byHeld, heldCell},
	{"WAITERS", 8, true, byWaiters, func(r topRow) string { return strconv.Itoa(r.waiters) }},
	{"WAIT", 7, true, byWait, func(r topRow) string { return cli.Span(r.wait) }},
	{"TAKEN", 6, true, byTaken, func(r topRow) string { return strconv.Itoa(r.taken) }},
	{"LOST", 5, true, byLost, func(r topRow) string { return strconv.Itoa(r.lost) }},
	{"MEAN HELD", 9, true, -1, func(r topRow) string { return cli.Span(r.meanHeld) }},
	{"MEAN WAIT", 9, true, -1, func(r topRow) string { return cli.Span(r.meanWait) }},
	{"KIND", 9, false, -1, func(r topRow) string { return r.kind }},
	{"TOKEN", 8, true, -1, func(r topRow) string { return strconv.FormatInt(r.token, 10) }},
	{"TTL LEFT", 14, false, -1, func(r topRow) string { return r.left }},
}

// growing are the first columns, which take the remaining width. Each may take so many tenths of
// the whole before other columns are dropped.
var growing = []int{4, 3}

func heldCell(r topRow) string {
	if r.heldAtMost {
		return "≤" + cli.Span(r.held)
	}
	return cli.Span(r.held)
}

// layout is the widths of the columns that fit into width. The remaining width goes to the first
// columns, as far as their cells need it.
func layout(width int, rows []topRow) (widths []int) {
	left := width
	for i, c := range columns {
		w := c.width
		if i < len(growing) {
			w = max(w, min(needed(c, rows), width*growing[i]/10))
		}
		if i > 0 && w+len(cli.Gap) > left {
			break
		}
		if i > 0 {
			left -= len(cli.Gap)
		}
		widths = append(widths, w)
		left -= w
	}
	for i := range widths[:min(len(growing), len(widths))] {
		more := max(0, min(left, needed(columns[i], rows)-widths[i]))
		widths[i] += more
		left -= more
	}
	return widths
}

// needed is the width of a column's widest cell.
func needed(c column, rows []topRow) (widest int) {
	for _, r := range rows {
		widest = max(widest, displaywidth.String(c.cell(r)))
	}
	return widest
}

// fit cuts s off, or pads it, to the width of a column.
func fit(s string, width int, right bool) string {
	s = displaywidth.TruncateString(s, width, "…")
	fill := strings.Repeat(" ", max(0, width-displaywidth.String(s)))
	if right {
		return fill + s
	}
	return s + fill
}

// line is a row's columns.
func line(widths []int, cell func(column) string) string {
	cells := make([]string, len(widths))
	for i, w := range widths {
		cells[i] = fit(cell(columns[i]), w, columns[i].right)
	}
	return strings.Join(cells, cli.Gap)
}

const (
	topKeys    = "sort: n)ame h)eld w)aiters t) wait a) taken l)ost  r)everse  b)usy only  /) filter  ↑↓ Enter) details  q)uit"
	detailKeys = "↑↓ PgUp PgDn  Esc) back  q)uit"
)

// draw draws the rows, or all of one name.
func (v *viewer) draw(now time.Time) {
	width, height := v.screen.Size()
	v.screen.Clear()
	held, waiting := 0, 0
	for _, l := range v.snapshot.Queues {
		held += min(1, len(l.Holders()))
		waiting += len(l.Waiters())
	}
	v.put(0, fmt.Sprintf("pawl top  %s  %d held, %d waiting, revision %d%s", now.Format(time.TimeOnly), held, waiting, v.snapshot.Revision, v.status), tcell.StyleDefault.Bold(true))
	v.settle(v.board.rows(now), max(0, height-3))
	keys := topKeys
	var leases []int64
	if v.details != "" {
		leases = v.drawDetails(now, width)
		keys = detailKeys
	} else {
		leases = v.drawRows(width)
	}
	v.shown.Store(&leases)
	switch {
	case v.typing:
		keys = "filter: " + v.filter + "▏  Enter) done  Esc) clear"
	case v.filter != "" && v.details == "":
		keys = "filter: " + v.filter + "  Esc) clear  " + topKeys
	}
	v.put(height-1, keys, tcell.StyleDefault.Dim(!v.typing))
	v.screen.Show()
}

// put writes a whole line.
func (v *viewer) put(y int, text string, style tcell.Style) {
	width, _ := v.screen.Size()
	v.screen.PutStrStyled(0, y, fit(text, width, false), style)
}

// drawRows draws the visible rows, and returns their leases.
func (v *viewer) drawRows(width int) (leases []int64) {
	widths := layout(width, v.rows)
	v.put(1, line(widths, func(c column) string {
		if c.by != v.by {
			return c.title
		}
		return c.title + v.arrow()
	}), tcell.StyleDefault.Reverse(true))
	for i := range min(v.room, len(v.rows)-v.from) {
		r := v.rows[v.from+i]
		leases = append(leases, r.lease)
		style := tcell.StyleDefault
		if v.from+i == v.at {
			style = style.Reverse(true)
		}
		v.put(2+i, line(widths, func(c column) string { return c.cell(r) }), style)
	}
	return leases
}

// arrow marks the column that the rows are sorted by.
func (b *board) arrow() string {
	if (b.by == byName) != b.down {
		return "↑"
	}
	return "↓"
}
