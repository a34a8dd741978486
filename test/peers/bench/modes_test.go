//go:build linux

package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The server counts what each reader's acquisition needs, no matter who else holds.
func TestAReaderBesideOthersIsCounted(t *testing.T) {
	t.Parallel()
	r, err := measure(t.Context(), flags{rounds: 1, short: true, span: 200 * time.Millisecond, only: "beside", data: t.TempDir()})
	require.NoError(t, err)
	for kit, want := range map[string]counts{ours: {"Txn": 2}, theirs: {"DeleteRange": 1, "Range": 1, "Txn": 1}} {
		want.reached(t, r.of("beside", kit, 5)[0], kit)
	}
	assert.Contains(t, r.page()+r.data(), "## A reader among others")
}

// The CPU of pawld's process is counted for a lock through pawld, apart from the worker's.
func TestTheDaemonsShareIsItsOwn(t *testing.T) {
	t.Parallel()
	r, err := measure(t.Context(), flags{rounds: 1, short: true, span: 200 * time.Millisecond, only: "served-1", data: t.TempDir()})
	require.NoError(t, err)
	for kit, through := range map[string]bool{ours: false, served: true, gatewayed: false} {
		f := r.of("served-1", kit, 1)[0]
		assert.Positive(t, f.Ops, kit)
		assert.Equal(t, through, f.DaemonCPU > 0, kit)
	}
	counts{"Txn": 2}.reached(t, r.of("served-1", served, 1)[0], served)
	assert.Contains(t, r.page()+r.data(), "## Through a service")
}

// logged is a session whose locks record what happens to them.
type logged struct{ log *[]string }

func (s logged) locker(name string) locker { return loggedLock{s, name} }

type loggedLock struct {
	logged
	name string
}

func (l loggedLock) acquire(context.Context) (held, error) {
	*l.log = append(*l.log, "+"+l.name)
	if l.name == "forbidden" {
		return nil, errors.New("forbidden")
	}
	return l, nil
}

func (l loggedLock) try(ctx context.Context) (held, error) { return l.acquire(ctx) }

func (l loggedLock) release(context.Context) error {
	*l.log = append(*l.log, "-"+l.name)
	return nil
}

func TestLocksThatAreTakenOneAfterAnotherAreTakenInTheNamesOrder(t *testing.T) {
	var log []string
	h, err := inOrder(logged{&log}, []string{"c", "a", "b"}).acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.release(t.Context()))
	assert.Equal(t, []string{"+a", "+b", "+c", "-c", "-b", "-a"}, log)

	log = nil
	_, err = inOrder(logged{&log}, []string{"z", "forbidden", "a"}).acquire(t.Context())
	require.EqualError(t, err, "forbidden")
	assert.Equal(t, []string{"+a", "+forbidden", "-a"}, log)
}

func TestOneOfManyLocksIsPickedAtRandom(t *testing.T) {
	var log []string
	all := anyOf(logged{&log}, "name", 3)
	for range 200 {
		_, err := all.acquire(t.Context())
		require.NoError(t, err)
	}
	slices.Sort(log)
	assert.Equal(t, []string{"+name/0", "+name/1", "+name/2"}, slices.Compact(log))
}
