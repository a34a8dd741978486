package gate

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

// crowd enters a Line in goroutines, and records who is inside.
type crowd struct {
	*testing.T
	l       *Line
	order   []string
	leave   map[string]Place
	refused []string
}

// one is a source whose pieces have a load of one.
type one string

func (one) Load() int { return 1 }

func inLineOf(t *testing.T, room, share int, f func(c *crowd)) {
	synctest.Test(t, func(t *testing.T) {
		f(&crowd{T: t, l: NewLine(room, share), leave: map[string]Place{}})
	})
}

func (c *crowd) enter(ctx context.Context, ended chan struct{}, who, source string, load int) {
	go func() { // until there is room, or ctx or ended ends
		leave, ok := c.l.Enter(ctx, ended, one(source), load)
		if !ok {
			c.refused = append(c.refused, who)
			return
		}
		c.order = append(c.order, who)
		c.leave[who] = leave
	}()
	synctest.Wait()
}

func (c *crowd) leaves(who string) {
	c.leave[who].Leave()
	synctest.Wait()
}

// rule: G12
func TestALineAdmitsAsMuchAsThereIsRoomForInTheOrderOfTheirComing(t *testing.T) {
	inLineOf(t, 10, 1, func(c *crowd) {
		for _, x := range []struct {
			who  string
			load int
		}{{"a", 4}, {"b", 4}, {"c", 4}, {"d", 3}} {
			c.enter(c.Context(), nil, x.who, "one", x.load)
		}
		assert.Equal(c, []string{"a", "b"}, c.order, "what is small does not pass what waits")
		c.leaves("a")
		assert.Equal(c, []string{"a", "b", "c"}, c.order)
		c.leaves("b")
		assert.Equal(c, []string{"a", "b", "c", "d"}, c.order)
	})
}

// rule: G12
func TestWhatIsLargerThanTheRoomIsAdmittedAlone(t *testing.T) {
	inLineOf(t, 10, 1, func(c *crowd) {
		c.enter(c.Context(), nil, "a", "one", 1)
		c.enter(c.Context(), nil, "large", "one", 50)
		c.enter(c.Context(), nil, "b", "one", 1)
		assert.Equal(c, []string{"a"}, c.order)
		c.leaves("a")
		assert.Equal(c, []string{"a", "large"}, c.order)
		c.leaves("large")
		assert.Equal(c, []string{"a", "large", "b"}, c.order)
	})
}

// rule: G12
func TestTheSourcesTakeTurns(t *testing.T) {
	inLineOf(t, 1, 1, func(c *crowd) {
		for _, who := range []string{"a1", "a2", "a3", "a4"} {
			c.enter(c.Context(), nil, who, "a", 1)
		}
		c.enter(c.Context(), nil, "b1", "b", 1)
		c.enter(c.Context(), nil, "b2", "b", 1)
		for i := 0; i < 6; i++ {
			c.leaves(c.order[i])
		}
		assert.Equal(c, []string{"a1", "a2", "b1", "a3", "b2", "a4"}, c.order)
	})
}

// rule: G12
func TestWhoGivesUpLeavesTheLineAndHoldsNobodyUp(t *testing.T) {
	inLineOf(t, 10, 1, func(c *crowd) {
		ctx, cancel := context.WithCancel(c.Context())
		ended := make(chan struct{})
		c.enter(c.Context(), nil, "a", "one", 8)
		c.enter(ctx, nil, "cancelled", "one", 8)
		c.enter(c.Context(), ended, "ended", "one", 8)
		c.enter(c.Context(), nil, "small", "two", 2)
		assert.Equal(c, []string{"a"}, c.order)
		cancel()
		synctest.Wait()
		close(ended)
		synctest.Wait()
		assert.Equal(c, []string{"cancelled", "ended"}, c.refused)
		assert.Equal(c, []string{"a", "small"}, c.order, "nothing is before it any more")
		c.leaves("a")
		c.leaves("small")
		c.enter(c.Context(), nil, "b", "one", 10)
		assert.Equal(c, []string{"a", "small", "b"}, c.order)
	})
}

// rule: G12
func TestWhileItIsNarrowedOnlyAShareIsAdmitted(t *testing.T) {
	inLineOf(t, 8, 4, func(c *crowd) {
		for _, who := range []string{"a", "b", "c", "d"} {
			c.enter(c.Context(), nil, who, "one", 1)
		}
		c.l.Narrow()
		c.l.Narrow()
		c.enter(c.Context(), nil, "e", "one", 1)
		assert.Equal(c, []string{"a", "b", "c", "d"}, c.order)
		for _, who := range []string{"a", "b", "c"} {
			c.leaves(who)
		}
		assert.Equal(c, []string{"a", "b", "c", "d", "e"}, c.order, "two of eight")
		c.enter(c.Context(), nil, "f", "one", 1)
		c.l.Widen()
		synctest.Wait()
		assert.NotContains(c, c.order, "f")
		c.l.Widen()
		synctest.Wait()
		assert.Contains(c, c.order, "f")
	})
}

func TestWhatIsAdmittedAtOnceAllocatesNothing(t *testing.T) {
	l := NewLine(10, 1)
	var source Source = one("one")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		at, ok := l.Enter(t.Context(), nil, source, 10)
		assert.True(t, ok)
		at.Leave()
	}))
}
