package queue

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// The reasons to keep the keys of a hold that has ended, and for how long after its end each does.
const (
	keepTTL      = 6 * time.Second
	keepAtLeast  = 90 * time.Second
	keepPromised = 30 * time.Second
	keepDelay    = 20 * time.Second
	keepWork     = 15 * time.Second
)

// kept is a hold, the reasons to keep its keys, and how it ends.
type kept struct {
	*fixture
	s *session.Session
	a *Acquisition
}

// The ends of a hold. Each leaves the last of its keys to be deleted.
var keptEnds = []struct {
	name  string
	names []string
	end   func(k *kept)
}{
	{"released", nil, func(k *kept) { require.NoError(k, k.a.Release(k.Context(), errGivenBack)) }},
	{"forfeited", nil, func(k *kept) { k.a.Forfeit(ErrMaxHold) }},
	{"overwritten", nil, func(k *kept) { k.f.Put(k.a.Key(), "x", k.s.ID()) }},
	{"overwritten, without a lease", nil, func(k *kept) { k.f.Put(k.a.Key(), "x", 0) }},
	{"a key of a set deleted", []string{"other"}, func(k *kept) { k.f.Delete(k.a.Key()) }},
	{"a key of a set overwritten", []string{"other"}, func(k *kept) { k.f.Put(k.a.Key(), "x", k.s.ID()) }},
	{"a key of a set deleted, and given back", []string{"other"}, func(k *kept) {
		k.f.Delete(k.a.Key())
		synctest.Wait()
		require.ErrorIs(k, k.a.Release(k.Context(), errGivenBack), ErrLost)
	}},
	{"session closed", nil, func(k *kept) { k.s.CloseInBackground() }},
	{"forfeited, and session closed after 5 s", nil, func(k *kept) {
		k.a.Forfeit(ErrMaxHold)
		time.AfterFunc(5*time.Second, k.s.CloseInBackground)
	}},
	{"forfeited, and session closed after 16 s", nil, func(k *kept) {
		k.a.Forfeit(ErrMaxHold)
		time.AfterFunc(16*time.Second, k.s.CloseInBackground)
	}},
	{"a key of a set deleted, and session closed after 16 s", []string{"other"}, func(k *kept) {
		k.f.Delete(k.a.Key())
		time.AfterFunc(16*time.Second, k.s.CloseInBackground)
	}},
	{"a key of a set overwritten, and session closed after 16 s", []string{"other"}, func(k *kept) {
		k.f.Put(k.a.Key(), "x", k.s.ID())
		time.AfterFunc(16*time.Second, k.s.CloseInBackground)
	}},
}

// LD2, LD3, V4, ML6: how long after the end of a hold its keys stay, in seconds, for each end and each
// reason to keep them. A released key stays for AtLeast alone. In every other case AtLeast lasts unless the
// session ends, and the lock-delay follows the hold, its work, and what was promised, whichever ends last.
// rule: LD2
func TestEachEndKeepsItsKeysForEachReason(t *testing.T) {
	const none, atLeast, promised, delay, work = 0, 1, 2, 4, 8
	columns := []int{none, atLeast, promised, delay, work, delay | work, delay | promised, delay | atLeast, promised | work, delay | promised | work, atLeast | promised | delay | work}
	want := map[string][]int{
		//                              none  L   P   D   W  D+W D+P D+L P+W DPW all
		"released":                                                  {0, 90, 0, 0, 0, 0, 0, 90, 0, 0, 90},
		"forfeited":                                                 {0, 90, 30, 20, 15, 35, 50, 90, 30, 50, 90},
		"overwritten":                                               {0, 90, 30, 20, 15, 35, 50, 90, 30, 50, 90},
		"overwritten, without a lease":                              {0, 90, 30, 20, 15, 35, 50, 90, 30, 50, 90},
		"a key of a set deleted":                                    {6, 90, 30, 20, 15, 35, 50, 90, 30, 50, 90},
		"a key of a set overwritten":                                {6, 90, 30, 20, 15, 35, 50, 90, 30, 50, 90},
		"a key of a set deleted, and given back":                    {0, 90, 0, 20, 0, 20, 50, 90, 0, 50, 90},
		"session closed":                                            {0, 0, 30, 20, 15, 35, 50, 20, 30, 50, 50},
		"forfeited, and session closed after 5 s":                   {0, 5, 30, 20, 15, 35, 50, 20, 30, 50, 50},
		"forfeited, and session closed after 16 s":                  {0, 16, 30, 20, 15, 35, 50, 20, 30, 50, 50},
		"a key of a set deleted, and session closed after 16 s":     {16, 16, 30, 20, 16, 35, 50, 20, 30, 50, 50},
		"a key of a set overwritten, and session closed after 16 s": {16, 16, 30, 20, 16, 35, 50, 20, 30, 50, 50},
	}
	for _, end := range keptEnds {
		got := make([]int, len(columns))
		for i, why := range columns {
			inBubble(t, etcdfake.Options{}, func(w *fixture) {
				o := lease.Options{TTL: keepTTL}
				if strings.Contains(end.name, "session closed") {
					o.TTL = time.Hour // so that the lease does not expire before it is revoked
				}
				if why&delay != 0 {
					o.LockDelay = keepDelay
				}
				w.set = end.names
				k := &kept{fixture: w, s: w.sessionWith(pawl.Config{Session: o})}
				var l Limits
				if why&atLeast != 0 {
					l.AtLeast = keepAtLeast + time.Second
				}
				var err error
				k.a, err = w.take(w.Context(), k.s, labelled(Request{Limits: l}, len(w.queues())))
				require.NoError(w, err)
				time.Sleep(time.Second) // its key is watched
				ended := clock.Now()
				if why&promised != 0 {
					require.NoError(w, k.a.Promise(ended.Add(keepPromised)))
				}
				if why&work != 0 {
					time.AfterFunc(keepWork, k.s.DeferRevocation())
				}
				end.end(k)
				synctest.Wait()
				require.Error(w, k.a.Err())
				last := k.a.AllKeys()[len(k.a.AllKeys())-1]
				for w.f.Get(last) != nil && clock.Now().Sub(ended) < 3*time.Minute {
					time.Sleep(time.Second / 2)
					synctest.Wait()
				}
				got[i] = int(clock.Now().Sub(ended) / time.Second)
			})
		}
		assert.Equal(t, want[end.name], got, end.name)
	}
}

// A Handle carries AtLeast, and the session that takes over keeps what was lost for as long. So does the
// process that has lost it, which removes a key that is off its lease even if nobody takes the session over.
// rule: N6
func TestATakeoverDoesNotEndAtLeastForWhatWasLost(t *testing.T) {
	for _, end := range keptEnds {
		if end.name == "released" || strings.Contains(end.name, "session closed") {
			continue
		}
		for _, takenOver := range []bool{true, false} {
			offLease := strings.Contains(end.name, "without a lease")
			if !takenOver && !offLease {
				continue // it ends with its lease
			}
			inBubble(t, etcdfake.Options{}, func(w *fixture) {
				w.set = end.names
				k := &kept{fixture: w, s: w.session()}
				var err error
				k.a, err = w.take(w.Context(), k.s, labelled(Request{Limits: Limits{AtLeast: keepAtLeast}}, len(w.queues())))
				require.NoError(w, err)
				until := clock.Now().Add(keepAtLeast)
				time.Sleep(time.Second) // its key is watched
				end.end(k)
				synctest.Wait()
				require.ErrorIs(w, k.a.Err(), ErrLost)
				last := k.a.AllKeys()[len(k.a.AllKeys())-1]
				if takenOver {
					w.successor(k.s)
				} else {
					k.s.Detach()
				}
				time.Sleep(until.Sub(clock.Now()) - time.Nanosecond)
				synctest.Wait()
				assert.NotNil(w, w.f.Get(last), "%s, taken over: %t", end.name, takenOver)
				time.Sleep(time.Second)
				assert.Nil(w, w.f.Get(last), "%s, taken over: %t", end.name, takenOver)
			})
		}
	}
}
