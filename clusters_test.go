package pawl_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// clustersOf is Clusters with a fake cluster for each label.
func clustersOf(t *testing.T, labels ...string) *pawl.Clusters {
	t.Helper()
	clients := map[string]*pawl.Client{}
	for _, label := range labels {
		fake := etcdfake.New(etcdfake.Options{})
		t.Cleanup(fake.Close)
		clients[label] = dial(t, fake, pawl.Config{})
	}
	s, err := pawl.NewClusters(clients)
	require.NoError(t, err)
	return s
}

const spreadNames = 20_000

// where is the label of each name.
func where(s *pawl.Clusters) (all []string) {
	for i := range spreadNames {
		all = append(all, s.Label(fmt.Sprint("jobs/", i)))
	}
	return all
}

func TestNamesAreSpreadEvenlyOverClusters(t *testing.T) {
	labels := []string{"a", "b", "c", "eu-west-1", "eu-west-2"}
	share := map[string]int{}
	for _, label := range where(clustersOf(t, labels...)) {
		share[label]++
	}
	require.Len(t, share, len(labels))
	for label, n := range share { // a deviation of 4,000 is binomial, 57 at one sigma
		assert.InDelta(t, spreadNames/len(labels), n, 5*57, label)
	}
}

func TestANewClusterTakesItsShareAndMovesNothingElse(t *testing.T) {
	before, after := where(clustersOf(t, "a", "b", "c")), where(clustersOf(t, "a", "b", "c", "d"))
	moved := 0
	for i := range before {
		if before[i] != after[i] {
			require.Equal(t, "d", after[i])
			moved++
		}
	}
	assert.InDelta(t, spreadNames/4, moved, 5*62)
}

func TestAClusterThatGoesMovesItsOwnNamesOnly(t *testing.T) {
	before, after := where(clustersOf(t, "a", "b", "c")), where(clustersOf(t, "a", "c"))
	for i := range before {
		if before[i] != "b" {
			require.Equal(t, before[i], after[i])
		}
	}
}

// A new version must not change where a name is, because two processes would hold it.
func TestANameStaysOnItsClusterInEveryVersion(t *testing.T) {
	s := clustersOf(t, "one", "two", "three")
	got := map[string]string{}
	for _, name := range []string{"jobs/42", "reports/daily", "a", "", "名", "e"} {
		got[name] = s.Label(name)
	}
	assert.Equal(t, map[string]string{"jobs/42": "one", "reports/daily": "one", "a": "two", "": "two", "名": "one", "e": "three"}, got)
}

func TestEachClusterHasOneSessionOnItsOwnCluster(t *testing.T) {
	s := clustersOf(t, "a", "b")
	ctx := context.Background()
	of := map[string]*pawl.Session{}
	for i := range 100 {
		name := fmt.Sprint(i)
		session, err := s.For(name).Session(ctx)
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
	_, err := s.For("x").Session(ctx)
	assert.ErrorIs(t, err, lease.ErrClosed)
	assert.ErrorContains(t, err, s.Label("x"))
	assert.NoError(t, s.Close(), "again")
}

func TestClustersThatCannotBeAreRefused(t *testing.T) {
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
		_, err := pawl.NewClusters(clients)
		assert.ErrorContains(t, err, want)
	}
}

func TestNilClustersSaySo(t *testing.T) {
	for _, s := range []*pawl.Clusters{nil, {}} {
		_, err := s.For("x").Session(context.Background())
		assert.ErrorContains(t, err, "not made by NewClusters")
		_, err = s.ForAll("x")
		assert.ErrorContains(t, err, "not made by NewClusters")
		assert.Empty(t, s.Label("x"))
		assert.Nil(t, s.Client("x"))
		assert.NoError(t, s.Close())
	}
}

func TestSeveralNamesAreOfOneClusterOrAreRefused(t *testing.T) {
	s := clustersOf(t, "one", "two", "three")
	ctx := context.Background()
	all, err := s.ForAll("jobs/42", "reports/daily") // both on one
	require.NoError(t, err)
	session, err := all.Session(ctx)
	require.NoError(t, err)
	same, err := s.For("jobs/42").Session(ctx)
	require.NoError(t, err)
	assert.Same(t, same, session)
	_, err = s.ForAll("jobs/42", "a")
	assert.ErrorContains(t, err, `"jobs/42" is on "one", "a" on "two"`)
	_, err = s.ForAll()
	assert.ErrorContains(t, err, "no names")
}

// A lock of a name on the wrong cluster would exclude nobody.
func TestOneClustersSessionsLockNoNameOfAnother(t *testing.T) {
	clusters := clustersOf(t, "a", "b")
	on := map[string]string{} // a name, by label
	for i := 0; len(on) < 2; i++ {
		name := fmt.Sprint("n", i)
		on[clusters.Label(name)] = name
	}
	for what, acquire := range map[string]func(s pawl.Sessions, name string) error{
		"a lock": func(s pawl.Sessions, name string) error {
			h, err := lock.New(s, name, lock.Options{}).Acquire(t.Context())
			if err == nil {
				err = h.Release(t.Context())
			}
			return err
		},
		"a permit": func(s pawl.Sessions, name string) error {
			p, err := lock.NewSemaphore(s, name, 2, lock.Options{}).Acquire(t.Context())
			if err == nil {
				err = p.Release(t.Context())
			}
			return err
		},
		"a term": func(s pawl.Sessions, name string) error {
			term, err := elect.New(s, name, elect.Options{}).Campaign(t.Context(), nil)
			if err == nil {
				err = term.Resign(t.Context())
			}
			return err
		},
	} {
		assert.NoError(t, acquire(clusters.For(on["b"]), on["b"]), what)
		assert.ErrorContains(t, acquire(clusters.For(on["a"]), on["b"]), `is on "b", and the sessions are those of "a"`, what)
	}
}
