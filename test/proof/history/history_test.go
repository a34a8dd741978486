package history

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// op is an operation on the one name of these tests, at milliseconds.
func op(client int, kind Kind, token int64, call, ret int, out Outcome) Op {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	return Op{Client: client, Kind: kind, Name: "n", Token: token, Call: ms(call), Return: ms(ret), Outcome: out}
}

// good is a history with a release, a loss, an unknown release and writes.
func good() []Op {
	return []Op{
		op(1, Acquire, 5, 0, 10, OK),
		op(2, Acquire, 7, 5, 60, OK),
		op(1, Look, 5, 20, 21, OK),
		op(1, Fenced, 5, 22, 25, OK),
		op(1, Guarded, 5, 26, 28, OK),
		op(1, Release, 5, 40, 50, OK),
		op(1, Look, 5, 51, 52, Refused),
		op(2, Look, 7, 70, 71, OK),
		op(2, Fenced, 7, 72, 80, OK),
		op(1, Fenced, 5, 81, 90, Refused),
		op(2, Look, 7, 100, 101, Refused),
		op(2, Guarded, 7, 102, 103, Refused),
		op(2, Release, 7, 104, 105, Refused),
		op(3, Acquire, 0, 90, 95, Refused),
		op(3, Acquire, 9, 96, 130, OK),
		op(3, Look, 9, 131, 132, OK),
		op(3, Fenced, 9, 133, 140, Unknown),
		op(3, Release, 9, 141, 150, Unknown),
		op(1, Acquire, 12, 120, 170, OK),
		op(1, Look, 12, 171, 172, OK),
	}
}

func TestAHistoryThatCanHaveBeenHasNoViolation(t *testing.T) {
	assert.Empty(t, Intervals(good()))
	ok, decided, _ := Linearizable(good(), time.Minute)
	assert.True(t, ok)
	assert.True(t, decided)
	Check(t, good())
}

func TestSeededViolationsAreCaughtByTheIntervals(t *testing.T) {
	for what, c := range map[string]struct {
		says string
		ops  []Op
	}{
		"a look that says nil after the next one's acquire": {"two held at the same time",
			[]Op{op(1, Look, 5, 61, 62, OK), op(2, Look, 7, 65, 66, OK)}},
		"a release that says nil after the next one's acquire": {"two held at the same time",
			[]Op{op(4, Acquire, 20, 200, 210, OK), op(5, Acquire, 21, 201, 211, OK), op(5, Look, 21, 220, 221, OK), op(4, Release, 20, 230, 240, OK)}},
		"a smaller token later": {"a later holder has a smaller token",
			[]Op{op(4, Acquire, 11, 200, 210, OK), op(4, Look, 11, 220, 221, OK)}},
		"a token twice":       {"a token was given out twice", []Op{op(4, Acquire, 9, 200, 210, OK)}},
		"a look that recants": {"what had ended came back", []Op{op(2, Look, 7, 110, 111, OK)}},
		"a stale write accepted": {"a write was accepted after one with a greater token",
			[]Op{op(1, Fenced, 5, 92, 93, OK)}},
		"a holder's write refused": {"a write was refused to one who still held",
			[]Op{op(1, Guarded, 12, 173, 174, Refused), op(1, Look, 12, 175, 176, OK)}},
	} {
		t.Run(what, func(t *testing.T) {
			bad := Intervals(append(good(), c.ops...))
			require.NotEmpty(t, bad)
			var all []string
			for _, v := range bad {
				all = append(all, v.What)
			}
			assert.Contains(t, all, c.says)
		})
	}
}

func TestACallThatReturnsTooLateIsCaught(t *testing.T) {
	o := op(1, Other, 0, 0, 201, OK)
	o.Limit = 100 * time.Millisecond
	require.Len(t, Intervals([]Op{o}), 1)
	o = op(1, Other, 0, 200, 299, OK)
	o.Limit = 100 * time.Millisecond
	assert.Empty(t, Intervals([]Op{o}), "a context that had ended before the call counts from the call")
}

// modes is a history of readers beside one another between writers, and of two slots.
func modes() []Op {
	shared := func(o Op) Op { o.Shared = true; return o }
	slot := func(n int, o Op) Op { o.Name, o.Slot = "s", n; return o }
	permits := func(o Op) Op { o.Permits = 2; return o }
	return []Op{
		shared(op(1, Acquire, 5, 0, 10, OK)),
		shared(op(2, Acquire, 7, 5, 12, OK)),
		op(2, Fenced, 7, 13, 14, OK),
		op(1, Fenced, 5, 15, 16, OK), // a reader older than one that came first
		op(1, Look, 5, 20, 21, OK),
		op(2, Look, 7, 22, 23, OK),
		op(3, Acquire, 8, 11, 40, OK),
		op(2, Release, 7, 30, 35, OK),
		op(1, Release, 5, 31, 36, OK),
		op(3, Look, 8, 41, 42, OK),
		op(3, Fenced, 8, 43, 44, OK),
		op(1, Fenced, 5, 45, 46, Refused),
		op(3, Release, 8, 50, 55, OK),
		shared(op(1, Acquire, 9, 45, 60, OK)),
		op(1, Look, 9, 61, 62, OK),
		op(1, Fenced, 9, 63, 64, OK),
		permits(slot(1, op(4, Acquire, 20, 0, 5, OK))),
		permits(slot(2, op(5, Acquire, 21, 1, 6, OK))),
		slot(1, op(4, Look, 20, 90, 91, OK)),
		slot(2, op(5, Look, 21, 90, 91, OK)),
	}
}

// permits is a history of a semaphore whose limit goes from 3 to 2, of a permit that was
// lost, and of a lock of the same name at the same time.
func permits() []Op {
	return []Op{
		permit(1, 3, op(1, Acquire, 5, 0, 10, OK)),
		permit(2, 3, op(2, Acquire, 6, 1, 12, OK)),
		permit(3, 3, op(3, Acquire, 7, 2, 14, OK)),
		permit(1, 0, op(1, Fenced, 5, 15, 16, OK)),
		permit(3, 0, op(3, Fenced, 7, 17, 18, OK)),
		permit(2, 0, op(2, Fenced, 6, 19, 20, OK)), // each slot has separate registers
		permit(3, 0, op(3, Look, 7, 30, 31, OK)),
		permit(2, 0, op(2, Look, 6, 40, 41, OK)),
		permit(2, 0, op(2, Release, 6, 50, 55, OK)),
		permit(1, 0, op(1, Release, 5, 60, 65, OK)),
		permit(1, 2, op(4, Acquire, 9, 20, 64, OK)), // the third was lost after its last look
		permit(1, 0, op(4, Look, 9, 70, 71, OK)),
		permit(2, 2, op(5, Acquire, 11, 21, 80, OK)),
		permit(2, 0, op(5, Look, 11, 90, 91, OK)),
		permit(2, 0, op(5, Release, 11, 95, 99, OK)),
		permit(1, 0, op(4, Release, 9, 96, 100, OK)),
		op(1, Acquire, 8, 11, 19, OK),
		op(1, Look, 8, 111, 112, OK),
	}
}

// permit is o of a slot, from 1, of a semaphore with this limit.
func permit(slot, limit int, o Op) Op {
	o.Slot, o.Permits = slot, limit
	return o
}

func TestAHistoryOfPermitsThatCanHaveBeenHasNoViolation(t *testing.T) {
	assert.Empty(t, Intervals(permits()))
	ok, decided, _ := Linearizable(permits(), time.Minute)
	assert.True(t, ok)
	assert.True(t, decided)
}

// Rules SM1, SM3, SM4: no order of the operations explains what breaks one, and the
// intervals say which.
// rule: SM4
func TestSeededViolationsOfPermitsAreCaughtByBothChecks(t *testing.T) {
	for what, c := range map[string]struct {
		says string
		ops  []Op
	}{
		"one more than all agreed to": {"more held at the same time than one of them agreed to: 4, of at most 3",
			[]Op{permit(4, 3, op(6, Acquire, 8, 3, 16, OK)), permit(4, 0, op(6, Look, 8, 20, 21, OK))}},
		"one more than one of them agreed to": {"more held at the same time than one of them agreed to: 3, of at most 2",
			[]Op{permit(3, 3, op(6, Acquire, 12, 60, 82, OK)), permit(3, 0, op(6, Look, 12, 88, 89, OK))}},
		"a newcomer that agreed to less": {"more held at the same time than one of them agreed to: 3, of at most 2",
			[]Op{permit(1, 0, op(4, Look, 9, 92, 93, OK)), permit(3, 2, op(6, Acquire, 10, 60, 66, OK)), permit(3, 0, op(6, Look, 10, 85, 86, OK))}},
		"one slot twice": {"two held at the same time",
			[]Op{permit(1, 3, op(6, Acquire, 8, 3, 20, OK)), permit(1, 0, op(6, Look, 8, 22, 23, OK)), permit(1, 0, op(1, Look, 5, 25, 26, OK))}},
		"a smaller token of one slot": {"a later holder has a smaller token",
			[]Op{permit(2, 3, op(6, Acquire, 4, 56, 58, OK)), permit(2, 0, op(6, Look, 4, 59, 60, OK))}},
		"a stale write in one slot": {"a write was accepted after one with a greater token",
			[]Op{permit(2, 0, op(5, Fenced, 11, 81, 82, OK)), permit(2, 0, op(2, Fenced, 6, 83, 84, OK))}},
	} {
		t.Run(what, func(t *testing.T) {
			ops := append(permits(), c.ops...)
			var all []string
			for _, v := range Intervals(ops) {
				all = append(all, v.What)
			}
			assert.Contains(t, all, c.says)
			ok, decided, _ := Linearizable(ops, time.Minute)
			assert.True(t, decided)
			assert.False(t, ok)
		})
	}
}

func TestAHistoryOfModesThatCanHaveBeenHasNoViolation(t *testing.T) {
	assert.Empty(t, Intervals(modes()))
	ok, decided, _ := Linearizable(modes(), time.Minute)
	assert.True(t, ok)
	assert.True(t, decided)
}

func TestSeededViolationsOfModesAreCaughtByBothChecks(t *testing.T) {
	named := func(name string, o Op) Op { o.Name = name; return o }
	shared := func(o Op) Op { o.Shared = true; return o }
	slot := func(n int, o Op) Op { o.Name, o.Slot = "s", n; return o }
	for what, c := range map[string]struct {
		says string
		ops  []Op
	}{
		"a writer beside a reader":          {"two held at the same time", []Op{op(2, Acquire, 11, 62, 65, OK), op(2, Look, 11, 66, 67, OK), op(1, Look, 9, 70, 71, OK)}},
		"a reader beside a writer":          {"two held at the same time", []Op{shared(op(2, Acquire, 6, 40, 43, OK)), op(2, Look, 6, 45, 46, OK)}},
		"a reader's token below a writer's": {"a later holder has a smaller token", []Op{shared(op(2, Acquire, 6, 60, 63, OK)), op(2, Look, 6, 64, 65, OK)}},
		"a stale read accepted":             {"a write was accepted after one with a greater token", []Op{op(2, Fenced, 7, 47, 48, OK)}},
		"a late write under a reader":       {"a write was accepted after one with a greater token", []Op{op(3, Fenced, 8, 66, 67, OK)}},
		"a reader refused for another":      {"a write was refused to one who still held", []Op{op(1, Fenced, 5, 17, 18, Refused)}},
		"one of two names at once twice": {"two held at the same time", []Op{
			named("n", op(5, Acquire, 30, 62, 80, OK)), named("other", op(5, Acquire, 30, 62, 80, OK)), named("n", op(5, Look, 30, 85, 86, OK)), named("other", op(5, Look, 30, 85, 86, OK)),
			named("other", op(6, Acquire, 31, 63, 81, OK)), named("other", op(6, Look, 31, 84, 85, OK))}},
		"one slot twice": {"two held at the same time", []Op{slot(1, op(6, Acquire, 22, 7, 8, OK)), slot(1, op(6, Look, 22, 80, 81, OK))}},
	} {
		t.Run(what, func(t *testing.T) {
			ops := append(modes(), c.ops...)
			var all []string
			for _, v := range Intervals(ops) {
				all = append(all, v.What)
			}
			assert.Contains(t, all, c.says)
			ok, decided, _ := Linearizable(ops, time.Minute)
			assert.True(t, decided)
			assert.False(t, ok)
		})
	}
}

func TestSeededViolationsAreCaughtByTheModel(t *testing.T) {
	for what, ops := range map[string][]Op{
		"two holders":               {op(1, Look, 5, 61, 62, OK), op(2, Look, 7, 65, 66, OK)},
		"a smaller token later":     {op(4, Acquire, 11, 200, 210, OK)},
		"a stale write accepted":    {op(1, Fenced, 5, 92, 93, OK)},
		"a fresh write refused":     {op(2, Fenced, 7, 92, 93, Refused)},
		"a guarded write after all": {op(1, Guarded, 5, 92, 93, OK)},
	} {
		t.Run(what, func(t *testing.T) {
			ok, decided, _ := Linearizable(append(good(), ops...), time.Minute)
			assert.True(t, decided)
			assert.False(t, ok)
		})
	}
}

func TestAReleaseThatIsDecidedLateCountsFromItsFirstTry(t *testing.T) {
	ops := append(good(), op(1, Release, 12, 180, 190, Unknown),
		op(4, Acquire, 13, 175, 200, OK), op(4, Look, 13, 205, 206, OK), op(1, Release, 12, 210, 220, OK))
	assert.Empty(t, Intervals(ops))
	ok, _, _ := Linearizable(ops, time.Minute)
	assert.True(t, ok)
}

func TestAnUnknownWriteMayHaveBeenAppliedOrNot(t *testing.T) {
	for _, out := range []Outcome{OK, Refused} {
		ok, _, _ := Linearizable(append(good(), op(2, Fenced, 7, 200, 210, out)), time.Minute)
		assert.True(t, ok, out)
	}
}

func TestAViolationLeavesAFileAndAPicture(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(DirEnv, dir)
	report := Report(t.Name(), append(good(), op(2, Look, 7, 110, 111, OK)))
	assert.Contains(t, report, "came back")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		assert.NotEmpty(t, text)
		assert.True(t, strings.HasSuffix(f, ".json") || strings.HasSuffix(f, ".html"))
	}
	assert.Empty(t, Report(t.Name(), good()))
}

func TestWhatIsNotDecidedInTimeIsNoViolationAndIsSaid(t *testing.T) {
	var ops []Op
	for i := range 3_000 {
		ops = append(ops, op(i%5, Acquire, int64(i+1), 10*i, 10*i+1, OK), op(i%5, Release, int64(i+1), 10*i+2, 10*i+3, OK))
	}
	text, decided := report(t.Name(), ops, time.Nanosecond)
	assert.Empty(t, text)
	assert.False(t, decided)
}

func TestAPulseShowsWhenTheMachineWasLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stall atomic.Int64
		since := Since()
		r := NewRecorder(func() time.Duration { return since() + time.Duration(stall.Load()) })
		p := r.StartPulse()
		defer p.Stop()
		time.Sleep(time.Second)
		assert.Zero(t, p.Between(0, time.Second))
		stall.Store(int64(70 * time.Millisecond)) // the clock runs while nothing else does
		time.Sleep(time.Second)
		assert.Equal(t, 70*time.Millisecond, p.Between(900*time.Millisecond, 2*time.Second))
		assert.Zero(t, p.Between(0, 900*time.Millisecond))
		stall.Add(int64(50 * time.Millisecond))
		assert.GreaterOrEqual(t, p.Between(2*time.Second, r.Now()), 40*time.Millisecond, "it is late just now")
	})
}

func TestAnOrderOfManyHoldersIsFound(t *testing.T) {
	var ops []Op
	for i := range testscale.Of(2_000, 20_000) {
		at := 100 * i
		ops = append(ops, op(i%5, Acquire, int64(i+1), max(0, at-300), at, OK),
			op(i%5, Look, int64(i+1), at+10, at+11, OK), op(i%5, Fenced, int64(i+1), at+12, at+13, OK),
			op(i%5, Release, int64(i+1), at+50, at+60, OK))
	}
	assert.Empty(t, Intervals(ops))
	ok, decided, _ := Linearizable(ops, testscale.Hang)
	assert.True(t, decided, "of so many an order is found")
	assert.True(t, ok)
}
