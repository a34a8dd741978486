package top

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gdamore/tcell/v3"
)

// A viewer decides what a terminal shows of a board: its rows, of which one is selected, or the
// details of one name.
type viewer struct {
	*board
	screen tcell.Screen
	status string // beside the counts

	rows     []topRow // as last drawn
	room     int      // how many rows, or lines, fit
	at, from int      // the selected row, and the first visible one
	selected string   // its prefix
	typing   bool     // the user is typing the filter

	details string // the prefix of the name whose details are shown; "" if the rows are shown
	scroll  int    // its first visible line
	lines   int    // how many it has
}

// sorts are the keys of the orders.
const sorts = "nhwtal"

// key handles a key. It returns true if the key ends the viewer.
func (v *viewer) key(ev *tcell.EventKey) (end bool) {
	switch {
	case ev.Key() == tcell.KeyCtrlC:
		return true
	case v.typing:
		v.typed(ev)
		return false
	case ev.Key() == tcell.KeyEscape:
		return v.back()
	case ev.Key() == tcell.KeyEnter:
		v.open()
		return false
	}
	if by := v.moves(ev); by != 0 {
		v.move(by)
		return false
	}
	switch s := ev.Str(); {
	case s == "q":
		return true
	case s == "/":
		v.typing, v.details = true, ""
	case s == "r":
		v.down = !v.down
	case s == "b":
		v.busy = !v.busy
	case len(s) == 1 && strings.Contains(sorts, s):
		v.by, v.down = order(slices.Index([]byte(sorts), s[0])), false
	}
	return false
}

// typed adds a key to the filter.
func (v *viewer) typed(ev *tcell.EventKey) {
	switch ev.Key() {
	case tcell.KeyEscape:
		v.typing, v.filter = false, ""
	case tcell.KeyEnter, tcell.KeyUp, tcell.KeyDown:
		v.typing = false
	case tcell.KeyBackspace, tcell.KeyBackspace2, tcell.KeyDelete:
		_, n := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-n]
	case tcell.KeyCtrlU:
		v.filter = ""
	case tcell.KeyRune:
		v.filter += ev.Str()
	}
}

// back leaves what was entered last, the details or else the filter. It returns true if nothing is
// left.
func (v *viewer) back() (end bool) {
	switch {
	case v.details != "":
		v.details = ""
	case v.filter != "":
		v.filter = ""
	default:
		return true
	}
	return false
}

// open shows all of the selected name, or the rows again.
func (v *viewer) open() {
	if v.details != "" {
		v.details = ""
		return
	}
	v.details, v.scroll = v.selected, 0
}

// moves is how far a key moves, or 0 if it does not.
func (v *viewer) moves(ev *tcell.EventKey) int {
	switch ev.Key() {
	case tcell.KeyUp:
		return -1
	case tcell.KeyDown:
		return 1
	case tcell.KeyPgUp:
		return -max(1, v.room)
	case tcell.KeyPgDn:
		return max(1, v.room)
	case tcell.KeyHome:
		return -max(1, len(v.rows), v.lines)
	case tcell.KeyEnd:
		return max(1, len(v.rows), v.lines)
	}
	return 0
}

func (v *viewer) move(by int) {
	if v.details != "" {
		v.scroll = max(0, min(v.scroll+by, v.lines-v.room))
		return
	}
	v.at = max(0, min(v.at+by, len(v.rows)-1))
	v.selected = ""
	if v.at < len(v.rows) {
		v.selected = v.rows[v.at].prefix
	}
}

// settle finds the selected row among others, and scrolls to it.
func (v *viewer) settle(rows []topRow, room int) {
	v.rows, v.room = rows, room
	if i := slices.IndexFunc(rows, func(r topRow) bool { return r.prefix == v.selected }); i >= 0 {
		v.at = i
	}
	v.move(0)
	v.from = max(0, min(v.from, v.at, len(rows)-room))
	if v.at >= v.from+room {
		v.from = v.at - room + 1
	}
}
