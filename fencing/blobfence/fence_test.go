package blobfence_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/blobfence"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

const name = "state.json"

// script plays the faults in turn, then none.
func (m *memory) script(faults ...fault) {
	m.fault = func() fault {
		if len(faults) == 0 {
			return none
		}
		f := faults[0]
		faults = faults[1:]
		return f
	}
}

func TestAppliedWriteWhoseAnswerIsLostIsFoundAndNotRepeated(t *testing.T) {
	m := newMemory()
	m.script(none, lost)
	require.NoError(t, blobfence.Fence{Store: m}.Write(t.Context(), name, 57, []byte("a")))
	assert.Equal(t, 1, m.puts)
}

func TestWriteThatWasNotAppliedIsSentAgain(t *testing.T) {
	m := newMemory()
	m.script(none, notSent, lookFails, none, notSent)
	require.NoError(t, blobfence.Fence{Store: m}.Write(t.Context(), name, 57, []byte("a")))
	assert.Equal(t, "a", m.objects[name].body)
}

func TestLateCopyOfARepeatedWriteIsNotApplied(t *testing.T) {
	m := newMemory()
	m.script(none, onItsWay)
	f := blobfence.Fence{Store: m}
	require.NoError(t, f.Write(t.Context(), name, 57, []byte("a")))
	require.NoError(t, f.Write(t.Context(), name, 57, []byte("b")))
	m.arrive()
	assert.Equal(t, "b", m.objects[name].body)
}

func TestLateWriteOfAnOlderHolderIsNotAppliedAfterANewerOneRead(t *testing.T) {
	for existing := range 2 {
		m := newMemory()
		f := blobfence.Fence{Store: m, Attempts: 1}
		want := error(blobfence.ErrNotFound)
		if existing == 1 {
			require.NoError(t, f.Write(t.Context(), name, 40, []byte("old")))
			want = nil
		}
		m.script(none, onItsWay)
		require.ErrorIs(t, f.Write(t.Context(), name, 41, []byte("late")), blobfence.ErrUnknown)
		_, err := f.Read(t.Context(), name, 57)
		require.ErrorIs(t, err, want)
		m.arrive()
		assert.NotEqual(t, "late", m.objects[name].body)
	}
}

func TestWriteOvertakenByANewerHolderAfterALostAnswerIsUnknownNotStale(t *testing.T) {
	m := newMemory()
	newer := blobfence.Fence{Store: m}
	store := &between{memory: m, then: func() { require.NoError(t, newer.Write(t.Context(), name, 57, []byte("b"))) }}
	m.script(none, lost)
	err := blobfence.Fence{Store: store}.Write(t.Context(), name, 41, []byte("a"))
	require.ErrorIs(t, err, blobfence.ErrUnknown)
	var stale *fencing.StaleError
	assert.False(t, errors.As(err, &stale), "a refusal would say that nothing was written")
}

func TestWriteOvertakenByItsOwnHolderAfterALostAnswerIsUnknown(t *testing.T) {
	m := newMemory()
	same := blobfence.Fence{Store: m}
	store := &between{memory: m, then: func() { require.NoError(t, same.Write(t.Context(), name, 41, []byte("b"))) }}
	m.script(none, lost)
	require.ErrorIs(t, blobfence.Fence{Store: store}.Write(t.Context(), name, 41, []byte("a")), blobfence.ErrUnknown)
	assert.Equal(t, "b", m.objects[name].body, "it was not written a second time over the later one")
}

func TestWriteThatAnOlderHolderOvertookIsKnownNotToBeApplied(t *testing.T) {
	m := newMemory()
	older := blobfence.Fence{Store: m}
	store := &between{memory: m, then: func() { require.NoError(t, older.Write(t.Context(), name, 41, []byte("older"))) }}
	m.script(none, notSent, none, none, none, forbidden) // our look and Put, the older holder's, and ours again
	err := blobfence.Fence{Store: store}.Write(t.Context(), name, 57, []byte("a"))
	require.ErrorIs(t, err, blobfence.ErrNotApplied)
	assert.NotErrorIs(t, err, blobfence.ErrUnknown, "the version that the first copy was to replace is gone for good")
}

// between does something after the first Put.
type between struct {
	*memory
	then func()
}

func (b *between) Put(ctx context.Context, name string, body []byte, m blobfence.Meta, at blobfence.Version) error {
	err := b.memory.Put(ctx, name, body, m, at)
	if then := b.then; then != nil {
		b.then = nil
		then()
	}
	return err
}

// busy is always a step ahead.
type busy struct{ *memory }

func (b busy) Put(context.Context, string, []byte, blobfence.Meta, blobfence.Version) error {
	return blobfence.ErrChanged
}

func TestAttemptsAreBounded(t *testing.T) {
	f := blobfence.Fence{Store: busy{newMemory()}, Attempts: 3}
	err := f.Write(t.Context(), name, 57, nil)
	assert.ErrorIs(t, err, blobfence.ErrContended)
	assert.NotErrorIs(t, err, blobfence.ErrUnknown)
	_, err = f.Read(t.Context(), name, 57)
	assert.ErrorIs(t, err, blobfence.ErrContended)
}

func TestDeletedObjectKeepsItsToken(t *testing.T) {
	m := newMemory()
	f := blobfence.Fence{Store: m}
	require.NoError(t, f.Write(t.Context(), name, 41, []byte("a")))
	require.NoError(t, f.Delete(t.Context(), name, 57))
	_, err := f.Read(t.Context(), name, 57)
	assert.ErrorIs(t, err, blobfence.ErrNotFound)
	var stale *fencing.StaleError
	assert.ErrorAs(t, f.Write(t.Context(), name, 41, []byte("late")), &stale)
	assert.ErrorAs(t, f.Delete(t.Context(), name, 41), &stale)
	require.NoError(t, f.Write(t.Context(), name, 57, []byte("b")))
	body, err := f.Read(t.Context(), name, 58)
	require.NoError(t, err)
	assert.Equal(t, "b", string(body))
}

func TestObjectOfAnotherWriterIsAdopted(t *testing.T) {
	m := newMemory()
	m.objects[name] = object{body: "plain", at: "7"}
	body, err := blobfence.Fence{Store: m}.Read(t.Context(), name, 57)
	require.NoError(t, err)
	assert.Equal(t, "plain", string(body))
	assert.Equal(t, fencing.Token(57), m.objects[name].meta.Token)
}

func TestBadInputIsRefusedAndNamed(t *testing.T) {
	m := newMemory()
	f := blobfence.Fence{Store: m}
	assert.ErrorIs(t, f.Write(t.Context(), name, 0, nil), fencing.ErrNoToken)
	assert.ErrorIs(t, f.Delete(t.Context(), "", 1), fencing.ErrNoResource)
	_, err := f.Read(t.Context(), name, -1)
	assert.ErrorIs(t, err, fencing.ErrNoToken)
	assert.True(t, strings.HasPrefix(err.Error(), `blobfence: read "state.json": `), "%v", err)
	var none context.Context
	assert.ErrorContains(t, f.Write(none, name, 57, nil), `blobfence: write "state.json": nil context`)
	assert.ErrorContains(t, blobfence.Fence{}.Write(t.Context(), name, 57, nil), `blobfence: write "state.json": nil store`)
	assert.Zero(t, m.puts)
}

func TestErrorOfTheFirstReadIsReturnedAtOnce(t *testing.T) {
	m := newMemory()
	m.script(lookFails)
	err := blobfence.Fence{Store: m}.Write(t.Context(), name, 57, nil)
	assert.ErrorIs(t, err, errReset)
	assert.NotErrorIs(t, err, blobfence.ErrUnknown)
}

func TestErrorThatSaysNotAppliedEndsTheLoop(t *testing.T) {
	m := newMemory()
	m.script(none, forbidden)
	err := blobfence.Fence{Store: m}.Write(t.Context(), name, 57, nil)
	assert.ErrorIs(t, err, blobfence.ErrNotApplied)
	assert.NotErrorIs(t, err, blobfence.ErrUnknown)
	m.script(none, forbidden)
	_, err = blobfence.Fence{Store: m}.Read(t.Context(), name, 57)
	assert.ErrorIs(t, err, blobfence.ErrNotApplied)
	assert.Equal(t, 2, m.puts)

	m.script(none, onItsWay, none, forbidden)
	assert.ErrorIs(t, blobfence.Fence{Store: m}.Write(t.Context(), name, 57, nil), blobfence.ErrUnknown, "the first copy is still on its way")
}

func TestContextThatEndsAfterAnUnclearAnswerLeavesTheOutcomeOpen(t *testing.T) {
	m := newMemory()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("lost the lock")
	m.script(none, notSent)
	store := &between{memory: m, then: func() { cancel(why) }}
	err := blobfence.Fence{Store: store}.Write(ctx, name, 57, nil)
	assert.ErrorIs(t, err, blobfence.ErrUnknown)
	assert.ErrorIs(t, err, why)
}

func TestReaderThatFindsAGreaterTokenRegisteredWritesNothing(t *testing.T) {
	m := newMemory()
	f := blobfence.Fence{Store: m}
	require.NoError(t, f.Write(t.Context(), name, 41, []byte("a")))
	for _, token := range []fencing.Token{57, 55, 57} {
		body, err := f.ReadShared(t.Context(), name, token)
		require.NoError(t, err)
		assert.Equal(t, "a", string(body))
	}
	assert.Equal(t, 2, m.puts)
	assert.Equal(t, fencing.Token(16), m.objects[name].meta.Ahead)
}

// A Store of somebody else's that was written before there were readers.
type forgetful struct{ *memory }

func (s forgetful) Put(ctx context.Context, name string, body []byte, m blobfence.Meta, at blobfence.Version) error {
	m.Ahead = 0
	return s.memory.Put(ctx, name, body, m, at)
}

func TestStoreThatDropsOneRegisterRefusesReadersAndAdmitsNothingStale(t *testing.T) {
	f := blobfence.Fence{Store: forgetful{newMemory()}}
	require.NoError(t, f.Write(t.Context(), name, 41, []byte("a")))
	_, err := f.ReadShared(t.Context(), name, 57)
	require.NoError(t, err)
	var stale *fencing.StaleError
	_, err = f.ReadShared(t.Context(), name, 55)
	require.ErrorAs(t, err, &stale, "over-strict")
	require.ErrorAs(t, f.Write(t.Context(), name, 56, nil), &stale)
	require.NoError(t, f.Write(t.Context(), name, 58, nil))
}
