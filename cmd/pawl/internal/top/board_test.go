package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/gdamore/tcell/v3"
	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/internal/inspect"
)

func TestTheBoardSortsByWhatIsMost(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }
	lines := []inspect.NamedQueue{
		{Name: "a", Prefix: "a/", Queue: []inspect.Position{{Owner: "x", HeldSince: ago(5), Holds: true}, {Observed: ago(3)}, {Observed: ago(1)}}},
		{Name: "b", Prefix: "b/", Queue: []inspect.Position{{Owner: "y", Since: ago(9), Holds: true}}},
		{Name: "c", Prefix: "c/", Election: true, Queue: []inspect.Position{{Owner: "z", Holds: true}, {Since: ago(60), Election: true}}},
	}
	b := newBoard(byName)
	b.take(&inspect.Snapshot{Queues: lines}, []inspect.Event{
		{Kind: inspect.Acquired, Name: "d", Prefix: "d/", Waited: 2 * time.Second, Held: -1},
		{Kind: inspect.Lost, Name: "d", Prefix: "d/", Waited: -1, Held: 4 * time.Second},
		{Kind: inspect.Acquired, Name: "b", Prefix: "b/", Waited: -1, Held: -1},
	})
	names := func() (s string) {
		for _, r := range b.rows(now) {
			s += r.name
		}
		return s
	}
	for by, want := range map[order]string{byName: "abcd", byHeld: "bacd", byWaiters: "acbd", byWait: "abcd", byTaken: "bdac", byLost: "dabc"} {
		b.by = by
		assert.Equal(t, want, names(), orders[by])
	}
	b.by, b.down = byName, true
	assert.Equal(t, "dcba", names())
	rows := b.rows(now)
	assert.Equal(t, topRow{prefix: "d/", name: "d", kind: "lock", holder: "-", held: -1, wait: -1, taken: 1, lost: 1, meanHeld: 4 * time.Second, meanWait: 2 * time.Second}, rows[0])
	assert.True(t, rows[2].heldAtMost)
	b.busy = true
	assert.Equal(t, "cba", names())
}

func TestARowHasAllHoldersOfAName(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	reader := func(owner string, second int) inspect.Position {
		return inspect.Position{Form: inspect.Pawl, Mode: inspect.ModeShared, Owner: owner, Host: "h-" + owner, Token: 5, HeldSince: now.Add(-time.Duration(second) * time.Second), Holds: true}
	}
	slot := func(owner string, n int) inspect.Position {
		return inspect.Position{Form: inspect.Pawl, Mode: inspect.ModeSemaphore, Slot: n, Limit: 3, Owner: owner, Token: 7, Holds: true}
	}
	b := newBoard(byName)
	b.take(&inspect.Snapshot{Queues: []inspect.NamedQueue{
		{Name: "a", Prefix: "a/", Queue: []inspect.Position{reader("x", 5), reader("y", 9), {Form: inspect.Pawl, Mode: inspect.ModeExclusive, Owner: "w"}}},
		{Name: "b", Prefix: "//pawl/sem/b/", Semaphore: true, Queue: []inspect.Position{slot("x", 0), slot("y", 2)}},
		{Name: "c", Prefix: "//pawl/sem/c/", Semaphore: true, Queue: []inspect.Position{{Form: inspect.Pawl, Mode: inspect.ModeSemaphore, Owner: "q"}}},
	}}, nil)
	rows := b.rows(now)
	assert.Equal(t, []any{"x and 1 other reader", 9 * time.Second, 1, "lock"}, []any{rows[0].holder, rows[0].held, rows[0].waiters, rows[0].kind})
	assert.Equal(t, []any{"x and 1 other, 2 of 3 slots", "semaphore"}, []any{rows[1].holder, rows[1].kind})
	assert.Equal(t, []any{"-", 1, int64(0)}, []any{rows[2].holder, rows[2].waiters, rows[2].token})
	assert.True(t, rows[0].fits("h-y"), "a holder that is not the first")

	v := &viewer{board: b, details: "a/"}
	said := strings.Join(v.describe(now), "\n")
	assert.Contains(t, said, "held    2 readers, 1 writer waiting")
	assert.Regexp(t, `(?m)^holds +y \(reader\) +token 5  h-y  held 9s  lease none`, said)
	assert.Contains(t, said, "\n1 writer waiting\n")
	v.details = "//pawl/sem/b/"
	assert.Regexp(t, `(?m)^slot 2 +y +token 7 `, strings.Join(v.describe(now), "\n"))
	v.details = "//pawl/sem/c/"
	assert.Contains(t, strings.Join(v.describe(now), "\n"), "holder  nobody, for now")
	assert.NotContains(t, strings.Join(v.describe(now), "\n"), "token", "who waits for a slot has none")
}

func TestTheBoardForgetsTheNameThatWasQuietForLongest(t *testing.T) {
	b := newBoard(byName)
	for i := range maxTallies + 1 {
		name := fmt.Sprint(i)
		b.take(b.snapshot, []inspect.Event{{Name: name, Prefix: name, Time: time.Unix(int64(i), 0)}})
	}
	assert.Len(t, b.seen, maxTallies)
	assert.NotContains(t, b.seen, "0")
}

// fiveLines is a screen of five lines, of which two are for rows.
type fiveLines struct{ tcell.Screen }

func (fiveLines) Size() (int, int)                           { return 80, 5 }
func (fiveLines) Clear()                                     {}
func (fiveLines) Show()                                      {}
func (fiveLines) PutStrStyled(int, int, string, tcell.Style) {}

func TestOnlyTheLeasesThatAreShownAreQueried(t *testing.T) {
	v := &viewer{board: newBoard(byName), screen: fiveLines{}}
	s := &inspect.Snapshot{}
	for i := range 5 {
		name := fmt.Sprint(i)
		s.Queues = append(s.Queues, inspect.NamedQueue{Name: name, Prefix: name + "/", Queue: []inspect.Position{{Token: 1, Lease: int64(100 + i), Holds: true}}})
	}
	v.take(s, nil)
	v.draw(time.Now())
	assert.Equal(t, []int64{100, 101}, *v.shown.Load())
	v.move(2)
	v.draw(time.Now())
	assert.Equal(t, []int64{101, 102}, *v.shown.Load(), "the selected row is visible")
	v.open()
	v.draw(time.Now())
	assert.Equal(t, []int64{102}, *v.shown.Load())
	v.back()
	v.take(&inspect.Snapshot{}, nil)
	v.draw(time.Now())
	assert.Empty(t, *v.shown.Load())
}

func TestColumnsTakeTheWidthThatThereIs(t *testing.T) {
	long := strings.Repeat("x", 60)
	rows := []topRow{{name: long, holder: "short"}, {name: "鎖の名前", holder: "h"}}
	narrow, wide := layout(60, rows), layout(400, rows)
	assert.Equal(t, []int{28, 20, 8}, narrow[:3])
	assert.Len(t, wide, len(columns))
	assert.Equal(t, []int{60, 20}, wide[:2], "no wider than its cells need")
	cell := func(r topRow) func(column) string { return func(c column) string { return c.cell(r) } }
	assert.Contains(t, line(wide, cell(rows[0])), long+"  short ")
	for _, width := range []int{1, 24, 60, 130, 400} {
		widths := layout(width, rows)
		a, b := line(widths, cell(rows[0])), line(widths, cell(rows[1]))
		assert.Equal(t, displaywidth.String(a), displaywidth.String(b), "wide characters align")
	}
	assert.Equal(t, "鎖… ", fit("鎖の名前", 4, false), "no half of a character")
}

func TestAFilterWantsEachOfItsWords(t *testing.T) {
	r := topRow{name: "reports/Daily", holder: "ann", host: "web1"}
	for filter, fits := range map[string]bool{"": true, "daily": true, "ANN rep": true, "web1 ann": true, "bob": false, "daily bob": false} {
		assert.Equal(t, fits, r.fits(filter), filter)
	}
}
