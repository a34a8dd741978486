package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v3"
)

// A column of the screen. Those to the right go first where it is narrow.
type column struct {
	title string
	width int // below 0: to the left
	by    order
	cell  func(topRow) string
}

var columns = []column{
	{"NAME", -24, byName, func(r topRow) string { return r.name }},
	{"HOLDER", -20, -1, func(r topRow) string { return r.holder }},
	{"HELD", 8, byHeld, heldCell},
	{"WAITERS", 8, byWaiters, func(r topRow) string { return strconv.Itoa(r.waiters) }},
	{"WAIT", 7, byWait, func(r topRow) string { return span(r.wait) }},
	{"TAKEN", 6, byTaken, func(r topRow) string { return strconv.Itoa(r.taken) }},
	{"LOST", 5, byLost, func(r topRow) string { return strconv.Itoa(r.lost) }},
	{"MEAN HELD", 9, -1, func(r topRow) string { return span(r.meanHeld) }},
	{"MEAN WAIT", 9, -1, func(r topRow) string { return span(r.meanWait) }},
	{"KIND", -8, -1, func(r topRow) string { return r.kind }},
	{"TOKEN", 8, -1, func(r topRow) string { return strconv.FormatInt(r.token, 10) }},
	{"TTL LEFT", -14, -1, func(r topRow) string { return r.left }},
}

func heldCell(r topRow) string {
	if r.heldAtMost {
		return "≤" + span(r.held)
	}
	return span(r.held)
}

// fit is s in a column: cut off, or filled up.
func fit(s string, width int) string {
	left := width < 0
	if left {
		width = -width
	}
	s = plain(s)
	n := utf8.RuneCountInString(s)
	if n > width {
		return string([]rune(s)[:width-1]) + "…"
	}
	fill := strings.Repeat(" ", width-n)
	if left {
		return s + fill
	}
	return fill + s
}

// line is a row's columns, as many as there is room for.
func line(width int, cell func(column) string) string {
	var b strings.Builder
	for _, c := range columns {
		text := fit(cell(c), c.width)
		if b.Len() > 0 && utf8.RuneCountInString(b.String())+2+utf8.RuneCountInString(text) > width {
			break
		}
		if b.Len() > 0 {
			b.WriteString("  ")
		}
		b.WriteString(text)
	}
	return b.String()
}

const topKeys = "sort: n)ame h)eld w)aiters t) wait a) taken l)ost  r)everse  b)usy only  ↑↓ PgUp PgDn  q)uit"

// draw draws the board, from row from on. It returns how many rows there are, and how many
// have room.
func (b *board) draw(s tcell.Screen, from int, status string, now time.Time) (rows, room int) {
	width, height := s.Size()
	all := b.rows(now)
	s.Clear()
	held, waiting := 0, 0
	for _, l := range b.survey.Lines {
		held++
		waiting += len(l.Queue) - 1
	}
	s.PutStrStyled(0, 0, fit(fmt.Sprintf("pawl top  %s  %d held, %d waiting, revision %d%s", now.Format(time.TimeOnly), held, waiting, b.survey.Revision, status), -max(width, 2)), tcell.StyleDefault.Bold(true))
	head := line(width, func(c column) string {
		if c.by != b.by {
			return c.title
		}
		return c.title + b.arrow()
	})
	s.PutStrStyled(0, 1, fit(head, -max(width, 2)), tcell.StyleDefault.Reverse(true))
	room = max(0, height-3)
	var leases []int64
	for i := range min(room, len(all)-min(from, len(all))) {
		r := all[from+i]
		leases = append(leases, r.lease)
		s.PutStr(0, 2+i, line(width, func(c column) string { return c.cell(r) }))
	}
	b.shown.Store(&leases)
	s.PutStrStyled(0, height-1, fit(topKeys, -max(width, 2)), tcell.StyleDefault.Dim(true))
	s.Show()
	return len(all), room
}

// arrow marks the column that the rows are sorted by.
func (b *board) arrow() string {
	if (b.by == byName) != b.down {
		return "↑"
	}
	return "↓"
}
