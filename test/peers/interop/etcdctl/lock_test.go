package etcdctl

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/lock"
)

var layout = lock.Options{EtcdLayout: true}

func TestEtcdctlLockExcludesPawlAndPawlWaitsForIt(t *testing.T) {
	b := start(t)
	theirs := b.etcdctl("lock", "jobs/42")
	key := theirs.says()
	m := lock.New(b.session(), "jobs/42", layout)
	_, err := m.TryAcquire(b.ctx)
	require.ErrorIs(t, err, lock.ErrBusy)
	assert.ErrorContains(t, err, key, "it names the holder")

	got := make(chan *lock.Held, 1)
	go func() { // ends with its turn
		h, err := m.Acquire(b.ctx)
		assert.NoError(t, err)
		got <- h
	}()
	b.queued("jobs/42", 2)
	code, _ := theirs.ends(true)
	assert.Zero(t, code)
	h := <-got
	require.NoError(t, h.Err())
	require.NoError(t, h.Release(b.ctx))
}

func TestPawlsLockExcludesEtcdctlAndEtcdctlWaitsForIt(t *testing.T) {
	b := start(t)
	h, err := lock.New(b.session(), "jobs/42", layout).Acquire(b.ctx)
	require.NoError(t, err)
	theirs := b.etcdctl("lock", "jobs/42")
	b.queued("jobs/42", 2)
	theirs.waits()
	require.NoError(t, h.Err())
	require.NoError(t, h.Release(b.ctx))
	assert.Regexp(t, `^jobs/42/[0-9a-f]+$`, theirs.says())
	code, _ := theirs.ends(true)
	assert.Zero(t, code)
	b.queued("jobs/42", 0)
}

// A holder, and two of each kind that wait: first come, first served.
func TestEtcdctlAndPawlWaitInOneQueue(t *testing.T) {
	b := start(t)
	h, err := lock.New(b.session(), "n", layout).Acquire(b.ctx)
	require.NoError(t, err)
	first := b.etcdctl("lock", "n")
	b.queued("n", 2)
	got := make(chan *lock.Held, 1)
	s := b.session()
	go func() { // ends with its turn
		h, err := lock.New(s, "n", layout).Acquire(b.ctx)
		assert.NoError(t, err)
		got <- h
	}()
	b.queued("n", 3)
	last := b.etcdctl("lock", "n")
	b.queued("n", 4)

	require.NoError(t, h.Release(b.ctx))
	first.says()
	last.waits()
	assert.Empty(t, got)
	code, _ := first.ends(true)
	assert.Zero(t, code)
	second := <-got
	last.waits()
	assert.Greater(t, second.Token(), h.Token())
	require.NoError(t, second.Release(b.ctx))
	last.says()
	code, _ = last.ends(true)
	assert.Zero(t, code)
}

// The command that etcdctl runs is given a key, whose create revision is what
// compares with our tokens, and a revision, which is not. The page on migrating has
// the line of shell that reads the former.
func TestEtcdctlsKeyComparesWithTokensAndItsRevisionDoesNot(t *testing.T) {
	b := start(t)
	h, err := lock.New(b.session(), "n", layout).Acquire(b.ctx)
	require.NoError(t, err)
	page, err := os.ReadFile("../../../../docs/how-to/migrating.md")
	require.NoError(t, err)
	read := regexp.MustCompile(`(?m)^token=.*$`).FindString(string(page))
	require.NotEmpty(t, read)
	script := fmt.Sprintf("etcdctl() { %s \"$@\"; }\n%s\necho $ETCD_LOCK_REV $token; exit 3", os.Args[0], read)
	theirs := b.etcdctl("lock", "n", "--", "sh", "-c", script)
	b.queued("n", 2)
	next := make(chan *lock.Held, 1)
	s := b.session()
	go func() { // ends with its turn
		h, err := lock.New(s, "n", layout).Acquire(b.ctx)
		assert.NoError(t, err)
		next <- h
	}()
	b.queued("n", 3)
	require.NoError(t, h.Release(b.ctx))
	var rev, token int64
	_, err = fmt.Sscan(theirs.says(), &rev, &token)
	require.NoError(t, err)
	code, _ := theirs.ends(false)
	assert.Equal(t, 3, code)
	after := <-next
	assert.Greater(t, rev, int64(after.Token()), "ETCD_LOCK_REV is above the next holder's token")
	assert.Greater(t, token, int64(h.Token()))
	assert.Less(t, token, int64(after.Token()))
	require.NoError(t, after.Release(b.ctx))
}
