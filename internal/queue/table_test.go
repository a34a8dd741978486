package queue

import (
	"maps"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// A cell is a row of the fault tables: one way in which one request fails.
type cell struct {
	at    request
	mode  string // of modes
	fault fault
	times int // how often it happens: once, or thrice
	batch int // how many writes are made at the same time: only this one, two, or 32
}

// modes are an exclusive and a shared acquisition, which the fixture's queue says, one of
// several names, and one of a semaphore's only slot.
var modes = map[string]func(w *fixture){
	exclusive: func(*fixture) {},
	"shared":  func(w *fixture) { w.shared = true },
	"set":     func(w *fixture) { w.set = []string{"name2", "name3"} },
	"permit":  func(w *fixture) { w.limit = 1 },
}

const exclusive = "exclusive"

// sharesRequests are those that package batch may send with others. Every other one is sent
// alone.
var sharesRequests = []request{isEnqueue, isTake, isSettle, isRelease, isHandoff, isUndo}

// repeated are those that are sent again after any failure, so its code makes no difference unless
// it is final.
var repeated = []request{isSettle, isQuery, isResume, isPeek, isWhy, isExplain, isUndo, isConfirm}

// toldApart are the plain codes that package cluster distinguishes, and one of the others.
var toldApart = []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unimplemented, codes.Internal}

// whole reports whether a cell is in the whole table.
func (c cell) whole() bool {
	return c.times == 1 || c.batch <= 2 && !c.fault.plain()
}

// everyday reports whether a cell is in the table of each day. That is a base, which is each fault
// once in each mode and alone, because each mode has different transactions and reads their answers
// differently. And it is the cells where two dimensions meet in the code:
//   - A plain code decides whether a request was applied. Package cluster knows no modes, and reads
//     the code only of a request that is not always repeated. One code stands for those that it does
//     not distinguish.
//   - The second and the third try go to other members, or wait for them, in any mode. A final fault
//     has no second try.
//   - A request of several writes fails for all its parts. Package batch decides by whether it was
//     applied and whether the fault is final, not by modes. After a final fault it sends each part
//     again, alone, so each may be refused again.
//   - In a request of 32, the one that is to blame is among many.
func (c cell) everyday() bool {
	if c.mode != exclusive {
		return c.times == 1 && c.batch == 1 && !c.fault.plain()
	}
	switch shares := slices.Contains(sharesRequests, c.at); {
	case c.fault.plain():
		return c.batch == 1 && !slices.Contains(repeated, c.at) && slices.Contains(toldApart, status.Code(c.fault.rule.Err))
	case c.batch == 1:
		return c.times == 1 || !c.fault.final
	case c.batch == 2:
		return shares && (c.times == 1 || c.fault.final)
	default:
		return shares && c.fault.final
	}
}

// raced reports whether a cell is in the table under the race detector: the base of an exclusive
// acquisition, and each fault of a request of two. A race would be in the code that the table runs,
// and the cells differ in what is answered, not in which goroutines run.
func (c cell) raced() bool {
	return c.mode == exclusive && c.times == 1 && c.batch <= 2 && !c.fault.plain() && c.everyday()
}

// plain is a fault with a code that etcd does not send for a particular reason.
func (fa fault) plain() bool { return status.Convert(fa.rule.Err).Message() == injected }

func (c cell) name() string {
	return c.fault.name + map[int]string{1: "", 3: ", thrice"}[c.times] + map[int]string{1: "", 2: ", of two", 32: ", of many"}[c.batch]
}

// cells returns the table of a request in a mode that this lane runs.
func cells(at request, mode string) (all []cell) {
	here := racedetector.Of(cell.raced, testscale.Of(cell.everyday, func(cell) bool { return true }))
	for _, batch := range []int{1, 2, 32} {
		for _, times := range []int{1, 3} {
			for _, fa := range faults() {
				c := cell{at, mode, fa, times, batch}
				if c.whole() && here(c) {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// eachFault runs f in a fixture for each cell of an exclusive acquisition. The request at of f's
// calls fails.
func eachFault(t *testing.T, at request, f func(w *fixture, fa fault)) {
	eachCell(t, at, exclusive, f)
}

// eachFaultInEachMode is eachFault in each of the modes.
func eachFaultInEachMode(t *testing.T, at request, f func(w *fixture, fa fault)) {
	for mode := range modes {
		t.Run(mode, func(t *testing.T) { eachCell(t, at, mode, f) })
	}
}

func eachCell(t *testing.T, at request, mode string, f func(w *fixture, fa fault)) {
	all, met := 0, 0
	for _, c := range cells(at, mode) {
		t.Run(c.name(), func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				fa := c.fault
				fa.rule.Times = c.times
				w.others = newOthers(w, c.batch-1, fa)
				modes[mode](w)
				f(w, fa)
				together := w.others.end()
				if fa.final || c.batch == 1 {
					return // perhaps nothing was written after it
				}
				all++
				if together {
					met++
				}
			})
		})
	}
	if !t.Failed() {
		assert.GreaterOrEqual(t, 2*met, all, "a member that failed is asked for its version before anything travels together again; most did")
	}
}

// eachMode runs f for each mode.
func eachMode(t *testing.T, f func(t *testing.T, mode string)) {
	for mode := range modes {
		t.Run(mode, func(t *testing.T) { f(t, mode) })
	}
}

// The everyday table has each mode and each fault, and only the pairs that meet. The whole one has
// everything.
func TestTheTableHasABaseAndThePairsThatMeet(t *testing.T) {
	count := func(at request, in func(cell) bool) (n int, base map[string]bool) {
		base = map[string]bool{}
		for mode := range modes {
			for _, fa := range faults() {
				for _, times := range []int{1, 3} {
					for _, batch := range []int{1, 2, 32} {
						c := cell{at, mode, fa, times, batch}
						if !c.whole() || !in(c) {
							continue
						}
						n++
						if times == 1 && batch == 1 && !fa.plain() {
							base[mode+": "+fa.name] = true
						}
					}
				}
			}
		}
		return n, base
	}
	ways := 0
	for _, fa := range faults() {
		if !fa.plain() {
			ways++
		}
	}
	for at, want := range map[request]int{
		isEnqueue: 148, // 22 faults in 4 modes, 9 with a plain code, 15 thrice, 22 + 7 of two, 7 of many
		isSettle:  139, // without the codes
		isQuery:   103, // it shares no request either
	} {
		n, base := count(at, cell.everyday)
		assert.Equal(t, want, n, "%s", at)
		assert.Len(t, base, ways*len(modes), "%s: %v", at, slices.Sorted(maps.Keys(base)))
		all, _ := count(at, cell.whole)
		assert.Equal(t, 812, all, "%s", at)
	}
}
