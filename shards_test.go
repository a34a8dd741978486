package pawl_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/lease"
)

// shardsOf is Shards with a fake cluster for each label.
func shardsOf(t *testing.T, labels ...string) *pawl.Shards {
	t.Helper()
	clients := map[string]*pawl.Client{}
	for _, label := range labels {
		fake := etcdfake.New(etcdfake.Options{})
		t.Cleanup(fake.Close)
		clients[label] = dial(t, fake, pawl.Config{})
	}
	s, err := pawl.NewShards(clients)
	require.NoError(t, err)
	return s
}

const shardedNames = 20_000

// where is the label of each name.
func where(s *pawl.Shards) (all []string) {
	for i := range shardedNames {
		all = append(all, s.Label(fmt.Sprint("jobs/", i)))
	}
	return all
}

func TestNamesAreSpreadEvenlyOverShards(t *testing.T) {
	labels := []string{"a", "b", "c", "eu-west-1", "eu-west-2"}
	share := map[string]int{}
	for _, label := range where(shardsOf(t, labels...)) {
		share[label]++
	}
	require.Len(t, share, len(labels))
	for label, n := range share { // a deviation of 4,000 is binomial, 57 at one sigma
		assert.InDelta(t, shardedNames/len(labels), n, 5*57, label)
	}
}

func TestANewShardTakesItsShareAndMovesNothingElse(t *testing.T) {
	before, after := where(shardsOf(t, "a", "b", "c")), where(shardsOf(t, "a", "b", "c", "d"))
	moved := 0
	for i := range before {
		if before[i] != after[i] {
			require.Equal(t, "d", after[i])
			moved++
		}
	}
	assert.InDelta(t, shardedNames/4, moved, 5*62)
}

func TestAShardThatGoesMovesItsOwnNamesOnly(t *testing.T) {
	before, after := where(shardsOf(t, "a", "b", "c")), where(shardsOf(t, "a", "c"))
	for i := range before {
		if before[i] != "b" {
			require.Equal(t, before[i], after[i])
		}
	}
}

// Where a name is must not change with a version: two would hold it.
func TestANameStaysOnItsShardInEveryVersion(t *testing.T) {
	s := shardsOf(t, "one", "two", "three")
	got := map[string]string{}
	for _, name := range []string{"jobs/42", "reports/daily", "a", "", "名", "e"} {
		got[name] = s.Label(name)
	}
	assert.Equal(t, map[string]string{"jobs/42": "one", "reports/daily": "one", "a": "two", "": "two", "名": "one", "e": "three"}, got)
}

func TestEachShardHasOneSessionOnItsOwnCluster(t *testing.T) {
	s := shardsOf(t, "a", "b")
	ctx := context.Background()
	of := map[string]*pawl.Session{}
	for i := range 100 {
		name := fmt.Sprint(i)
		session, err := s.Session(ctx, name)
		require.NoError(t, err)
		label := s.Label(name)
		if of[label] == nil {
			of[label] = session
		}
		assert.Same(t, of[label], session)
		assert.Same(t, s.Client(name), s.Client(name))
	}
	assert.Len(t, of, 2)
	assert.NotSame(t, of["a"], of["b"])
	require.NoError(t, s.Close())
	for _, session := range of {
		assert.ErrorIs(t, session.Err(), lease.ErrClosed)
	}
	_, err := s.Session(ctx, "x")
	assert.ErrorIs(t, err, lease.ErrClosed)
	assert.ErrorContains(t, err, s.Label("x"))
	assert.NoError(t, s.Close(), "again")
}

func TestShardsThatCannotBeAreRefused(t *testing.T) {
	fake := etcdfake.New(etcdfake.Options{})
	t.Cleanup(fake.Close)
	c := dial(t, fake, pawl.Config{})
	for want, clients := range map[string]map[string]*pawl.Client{
		"no clusters":      {},
		`"a": Client is`:   {"a": nil},
		`"b": Client is`:   {"a": c, "b": {}},
		`label "" is`:      {"": c},
		"zero byte":        {"a\x00b": c},
		`"a" and "b" have`: {"a": c, "b": c},
	} {
		_, err := pawl.NewShards(clients)
		assert.ErrorContains(t, err, want)
	}
}

func TestNilShardsSaySo(t *testing.T) {
	for _, s := range []*pawl.Shards{nil, {}} {
		_, err := s.Session(context.Background(), "x")
		assert.ErrorContains(t, err, "not made by NewShards")
		assert.Empty(t, s.Label("x"))
		assert.Nil(t, s.Client("x"))
		assert.NoError(t, s.Close())
	}
}
