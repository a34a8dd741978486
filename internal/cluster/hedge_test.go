package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// A hedged is a Hedge whose members, A, B and so on, answer as the test says.
type hedged struct {
	Hedge[string]
	t0      time.Time
	members []*Member

	mu      sync.Mutex
	queries []string // each with its time
	ended   int
}

// at is what a member does with a query. After d it answers, or fails with err.
type at struct {
	d   time.Duration
	err error
}

var (
	errTest  = errors.New("failed")
	errFinal = errors.New("final")
)

// newHedged makes a Hedge with a member for each element of does, which says what the member does with
// its queries, in order. A query without an element is never answered.
func newHedged(t *testing.T, does ...[]at) *hedged {
	t.Helper()
	endpoints := []string{"a:1", "b:1", "c:1", "d:1"}[:len(does)]
	c, err := newCluster(Config{Endpoints: endpoints})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	h := &hedged{t0: time.Now(), members: c.list()}
	count := make([]int, len(does))
	h.Hedge = Hedge[string]{
		Cluster: c, After: time.Second,
		Pick: func(queried []*Member) *Member {
			for _, m := range h.members {
				if !slices.Contains(queried, m) {
					return m
				}
			}
			return h.members[0]
		},
		Query: func(ctx context.Context, m *Member) (string, error) {
			i := slices.Index(h.members, m)
			name := string(rune('A' + i))
			h.mu.Lock()
			h.queries = append(h.queries, name+" "+time.Since(h.t0).String())
			n := count[i]
			count[i]++
			h.mu.Unlock()
			defer func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.ended++
			}()
			if n >= len(does[i]) {
				<-ctx.Done()
				time.Sleep(time.Millisecond) // it ends a moment later
				return "", ctx.Err()
			}
			time.Sleep(does[i][n].d)
			return name, does[i][n].err
		},
		Failed: func(err error) (time.Duration, bool) { return 100 * time.Millisecond, err == errFinal },
	}
	return h
}

// run runs the Hedge for 10 s at most, and returns which member answered, and when.
func (h *hedged) run(t *testing.T) (string, time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	a, err := h.Run(ctx)
	assert.Len(t, h.queries, h.ended, "it waits for every query")
	return a.Result, a.Took, err
}

// rule: N3
func TestASlowMemberIsJoinedAndGradedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHedged(t, nil, []at{{d: time.Second / 2}}, nil)
		var joined []time.Duration
		h.Joined = func(slow, m *Member, after time.Duration) {
			assert.Equal(t, h.members[:2], []*Member{slow, m})
			joined = append(joined, after)
		}
		who, took, err := h.run(t)
		require.NoError(t, err)
		assert.Equal(t, "B", who)
		assert.Equal(t, time.Second/2, took)
		assert.Equal(t, []string{"A 0s", "B 1s"}, h.queries)
		assert.Equal(t, []time.Duration{time.Second}, joined)
		assert.NotZero(t, h.members[0].coolUntil.Load())
		assert.Zero(t, h.members[1].coolUntil.Load())
	})
}

func TestAMemberThatWasNotSlowIsNotGradedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHedged(t, []at{{d: 1500 * time.Millisecond}}, nil)
		who, _, err := h.run(t)
		require.NoError(t, err)
		assert.Equal(t, "A", who)
		assert.Equal(t, []string{"A 0s", "B 1s"}, h.queries)
		assert.Zero(t, h.members[1].coolUntil.Load())
	})
}

func TestAfterAFailureAnotherMemberIsQueriedUnlessOneIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHedged(t, []at{{err: errTest}, {}}, []at{{err: errTest}})
		_, _, err := h.run(t)
		require.NoError(t, err)
		assert.Equal(t, []string{"A 0s", "B 100ms", "A 200ms"}, h.queries)
	})
	synctest.Test(t, func(t *testing.T) {
		h := newHedged(t, nil, []at{{err: errTest}}, []at{{}})
		_, _, err := h.run(t)
		require.NoError(t, err)
		assert.Equal(t, []string{"A 0s", "B 1s", "C 2s"}, h.queries)
	})
}

func TestThreeMembersAreQueriedAtOnceAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHedged(t, []at{{5 * time.Second, errTest}}, nil, nil, []at{{}})
		who, _, err := h.run(t)
		require.NoError(t, err)
		assert.Equal(t, "D", who)
		assert.Equal(t, []string{"A 0s", "B 1s", "C 2s", "D 5s"}, h.queries)
	})
}

func TestAMemberIsQueriedTwiceAtOnceOnlyWhereThatIsWanted(t *testing.T) {
	for twice, queries := range map[bool][]string{false: {"A 0s"}, true: {"A 0s", "A 1s", "A 2s"}} {
		synctest.Test(t, func(t *testing.T) {
			h := newHedged(t, nil)
			h.Twice = twice
			_, _, err := h.run(t)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, queries, h.queries)
		})
	}
}

func TestAFinalErrorEndsAHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHedged(t, nil, []at{{err: errFinal}}, nil)
		_, _, err := h.run(t)
		require.ErrorIs(t, err, errFinal)
		assert.Equal(t, []string{"A 0s", "B 1s"}, h.queries)
	})
}
