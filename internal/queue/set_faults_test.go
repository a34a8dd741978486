package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// ML5: if the first copy of a try's enqueue was applied, and somebody has deleted its first key
// before the second copy was refused, none of the other keys is left.
func TestATryOfASetThatFindsItsOwnKeysIsNotBusy(t *testing.T) {
	for _, gone := range []string{"namea/", "nameb/"} {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			s := w.session()
			w.f.Inject(isEnqueue.rule(etcdfake.Rule{Again: time.Nanosecond, Err: errNoLeader, Times: 1}))
			w.before(isWhy, func(*pb.TxnRequest) { w.f.Delete(w.f.Keys(gone)[0]) })
			a := w.takes(w.Context(), s, Request{Try: true}, "a", "b")
			err := a.failed()
			assert.NotErrorIs(w, err, ErrBusy)
			w.oneCause(ErrKeyDeleted, err)
			require.NoError(w, s.Err())
			w.clear()
		})
	}
}

// ML1, ML2: an enqueue compares all keys. A second copy that arrives after somebody has deleted the
// first key puts none, because the keys would not have one create revision.
func TestACopyOfASetsEnqueueIsRefusedWhereOneOfItsKeysIsThere(t *testing.T) {
	for _, gone := range []string{"namea/", "nameb/+"} {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			w.f.Inject(isEnqueue.rule(etcdfake.Rule{Err: errNoLeader, Times: 1}))
			w.f.Inject(etcdfake.Rule{Method: "Txn", Match: func(q etcdfake.Request) bool {
				if keys := w.f.Keys(gone); len(keys) > 0 && isEnqueue.is(q) {
					w.f.Delete(keys[0])
				}
				return false
			}})
			a := w.takes(w.Context(), w.session(), Request{}, "a", "+b")
			w.oneCause(ErrKeyDeleted, a.failed())
			w.clear()
		})
	}
}

// If an operator lowers --max-txn-ops under a set that waits, or whose enqueue is being settled,
// the set ends with an error that says so. Otherwise it would block its names for ever.
func TestASetThatTheServerHasNoOperationsForEndsAtOnce(t *testing.T) {
	tooMany := etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCTooManyOps}
	t.Run("querying", func(t *testing.T) {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			holder := w.takes(w.Context(), w.session(), Request{}, "a").won()
			a := w.takes(w.Context(), w.session(), Request{}, "a", "b")
			w.f.Inject(isQuery.rule(tooMany))
			w.release(holder)
			synctest.Wait()
			require.True(w, isClosed(a.done), "it queries again and again")
			require.ErrorContains(w, a.err, "--max-txn-ops is too low for 2 names")
			w.f.LiftAll()
			w.clear()
		})
	})
	t.Run("settling", func(t *testing.T) {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			w.f.Inject(isEnqueue.rule(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 1}))
			w.f.Inject(isSettle.rule(tooMany))
			a := w.takes(w.Context(), w.session(), Request{}, "a", "b")
			time.Sleep(time.Second)
			require.True(w, isClosed(a.done), "it settles again and again")
			require.ErrorContains(w, a.err, "too many operations")
			w.f.LiftAll()
			w.clear()
		})
	})
}

// ML5, ML6: a release that finds a key of a set gone deletes nothing, and says which one. The
// others are deleted in the background. A lost answer to the release does not explain the gone key.
// rule: ML5
func TestAReleaseOfASetThatLacksAKeySaysSo(t *testing.T) {
	for name, lost := range map[string]etcdfake.Rule{
		"answered":           {HoldAnswer: time.Nanosecond, Times: 1},
		"an answer was lost": {Err: status.Error(codes.Unavailable, "gone"), Times: 1},
	} {
		for i := range 3 {
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
					s := w.session()
					held := w.takes(w.Context(), s, Request{}, "a", "b", "+c").won()
					w.f.Delete(held.AllKeys()[i]) // before it is watched
					w.f.Inject(isRelease.rule(lost))
					err := held.Release(w.Context(), errGivenBack)
					w.oneCause(ErrKeyDeleted, err)
					assert.ErrorIs(w, err, ErrLost)
					assert.ErrorContains(w, err, held.AllKeys()[i])
					assert.Equal(w, err, held.Release(w.Context(), errGivenBack))
					time.Sleep(time.Second)
					assert.Empty(w, w.f.Keys("name"))
					require.NoError(w, s.Err())
					w.clear()
				})
			})
		}
	}
}

// R1: a release that is refused as a whole after an answer to it was lost is a release. What the
// lost one deletes, then or later, is no loss.
// rule: ML5
func TestAReleaseOfASetThatIsRefusedAfterALostAnswer(t *testing.T) {
	for name, late := range map[string]time.Duration{"applied": 0, "applied later": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				held := w.takes(w.Context(), w.session(), Request{}, "a", "b", "c").won()
				w.f.Inject(isRelease.rule(etcdfake.Rule{Late: late, Err: status.Error(codes.Unavailable, "gone"), Times: 1}))
				w.f.Inject(isRelease.rule(etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCTooManyOps}))
				w.f.Inject(isUndo.rule(etcdfake.Rule{Delay: 2 * late, Times: 1}))
				require.NoError(w, held.Release(w.Context(), errGivenBack))
				time.Sleep(time.Second)
				assert.Empty(w, w.f.Keys("name"))
				w.f.LiftAll()
				w.clear()
			})
		})
	}
}

// R1: if the lease of a set was revoked before its release was refused as a whole, the set was
// lost, although an earlier release whose answer was lost might have deleted its keys.
// rule: ML5
func TestAReleaseOfASetThatIsRefusedIsNoneWhereItsLeaseWasRevoked(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		held := w.takes(w.Context(), s, Request{}, "a", "b", "c").won()
		w.f.Inject(isRelease.rule(etcdfake.Rule{Lose: true, Err: status.Error(codes.Unavailable, "gone"), Times: 1}))
		w.f.Inject(isRelease.rule(etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCTooManyOps}))
		w.swallowing(func(*mvccpb.Event) bool { return true })
		w.f.Revoke(s.ID())
		err := held.Release(w.Context(), errGivenBack)
		w.oneCause(errRevoked, err)
		require.ErrorIs(w, err, ErrLost)
	})
}

// R1: the read of why a release of a set did not find its keys works although the server allows few
// operations by then.
func TestTheReadAfterAReleaseOfASetNeedsFewOperations(t *testing.T) {
	for name, answerLost := range map[string]bool{"the delete's answer was lost": true, "an operator deleted all": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				held := w.takes(w.Context(), w.session(), Request{}, "a", "b", "c").won()
				if answerLost {
					w.f.Inject(isRelease.rule(etcdfake.Rule{Err: status.Error(codes.Unavailable, "gone"), Times: 1}))
				} else {
					for _, key := range held.AllKeys() {
						w.f.Delete(key)
					}
				}
				w.f.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Err: rpctypes.ErrGRPCTooManyOps, Match: func(q etcdfake.Request) bool {
					return len(q.Message.(*pb.TxnRequest).Success) > 2
				}})
				ctx, cancel := context.WithTimeout(w.Context(), time.Second)
				defer cancel()
				err := held.Release(ctx, errGivenBack)
				if answerLost {
					require.NoError(w, err)
				} else {
					require.ErrorIs(w, err, ErrKeyDeleted)
				}
				w.f.LiftAll()
				w.clear()
			})
		})
	}
}

// ML6, N6: a successor releases what is left of a set that has lost a key, both if it was handed
// over before it was released, and if it cannot be resumed.
func TestTheRestOfALostSetIsNotHandedOverForEver(t *testing.T) {
	for name, lose := range map[string]func(w *fixture, key string){
		"deleted":     func(w *fixture, key string) { w.f.Delete(key) },
		"overwritten": func(w *fixture, key string) { w.f.Put(key, "another's", 0) },
	} {
		t.Run(name+" before", func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				s := w.session()
				held := w.takes(w.Context(), s, Request{}, "a", "b", "c").won()
				time.Sleep(time.Second) // armed
				lose(w, held.AllKeys()[1])
				synctest.Wait()
				require.ErrorIs(w, held.Err(), ErrLost)
				next := w.successor(s)
				time.Sleep(3 * s.TTL())
				require.NoError(w, next.Err())
				assert.Empty(w, w.f.Keys("name"))
				w.clear()
			})
		})
		t.Run(name+" meanwhile", func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				s := w.session()
				qs := w.queuesOf("a", "b", "+c")
				held := w.takes(w.Context(), s, Request{}, "a", "b", "+c").won()
				next := w.successor(s)
				lose(w, held.AllKeys()[1])
				r, err := Resume(w.Context(), next, held.AllKeys(), held.Token(), Limits{}, qs...)
				if name == "deleted" {
					w.oneCause(ErrKeyDeleted, err)
					require.ErrorIs(w, err, ErrLost)
					ctx, cancel := context.WithTimeout(w.Context(), 3*s.TTL())
					defer cancel()
					other := w.takes(ctx, w.session(), Request{}, "a")
					time.Sleep(s.TTL() / 2)
					assert.True(w, other.waits(), "what ran under it may wind up")
					w.release(other.won())
				} else {
					require.NoError(w, err)
					<-r.Done() // a renewal shows it
					w.oneCause(ErrKeyOverwritten, r.Release(w.Context(), errGivenBack))
				}
				time.Sleep(3 * s.TTL())
				require.NoError(w, next.Err())
				assert.Empty(w, w.f.Keys("name"))
				w.clear()
			})
		})
	}
}

// ML6: what is left is deleted key by key if the server refuses all at once, and each key is tried
// for as long as it takes.
// rule: ML6
func TestTheRestOfALostSetGoesKeyByKeyWhereItHasTo(t *testing.T) {
	for _, refusal := range []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCTooManyOps} {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			held := w.takes(w.Context(), w.session(), Request{}, "a", "b", "c").won()
			time.Sleep(time.Second) // armed
			w.f.Inject(etcdfake.Rule{Op: "delete the rest of a set", Lose: true, Err: refusal})
			first := w.f.Inject(etcdfake.Rule{Op: "delete overwritten key", Lose: true, Err: rpctypes.ErrGRPCPermissionDenied, Match: func(q etcdfake.Request) bool {
				return string(q.Message.(*pb.TxnRequest).Compare[0].Key) == held.keys[0]
			}})
			w.f.Delete(held.keys[1])
			synctest.Wait()
			w.oneCause(ErrKeyDeleted, held.Release(w.Context(), errGivenBack))
			time.Sleep(2 * time.Second)
			assert.Equal(w, held.keys[:1], w.f.Keys("name"), "as long as it is forbidden")
			first.Lift()
			time.Sleep(10 * time.Second)
			assert.Empty(w, w.f.Keys("name"))
			w.f.LiftAll()
			w.clear()
		})
	}
}

// ML6: what nobody claims stays while work defers the revocation, however long that takes.
func TestTheRestOfALostSetStaysWhileWorkDefersIt(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		held := w.takes(w.Context(), s, Request{}, "a", "b").won()
		time.Sleep(time.Second)
		done := s.DeferRevocation()
		w.f.Delete(held.AllKeys()[0])
		synctest.Wait()
		other := w.takes(w.Context(), w.session(), Request{}, "b")
		time.Sleep(3 * s.TTL())
		require.True(w, other.waits())
		done()
		w.release(other.won())
		w.clear()
	})
}

// AtLeast also counts for what is left of a set that has lost a key.
func TestTheRestOfALostSetStaysForAtLeast(t *testing.T) {
	for name, giveBack := range map[string]bool{"given back": true, "unclaimed": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				s := w.session()
				held := w.takes(w.Context(), s, Request{Limits: Limits{AtLeast: 10 * s.TTL()}}, "a", "b").won()
				time.Sleep(time.Second)
				w.f.Delete(held.AllKeys()[1])
				synctest.Wait()
				w.oneCause(ErrKeyDeleted, held.Err())
				ctx, cancel := context.WithTimeout(w.Context(), 20*s.TTL())
				defer cancel()
				other := w.takes(ctx, w.session(), Request{}, "a")
				if giveBack {
					w.oneCause(ErrKeyDeleted, held.Release(w.Context(), errGivenBack))
				}
				time.Sleep(9 * s.TTL())
				assert.True(w, other.waits())
				w.release(other.won())
				w.clear()
			})
		})
	}
}

// ML6, V4: a promise covers all names of a set, also those that were not lost.
// rule: ML6
func TestTheRestOfALostSetStaysForWhatWasPromised(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		held := w.takes(w.Context(), s, Request{}, "a", "b").won()
		until := clock.Now().Add(5 * s.TTL())
		require.NoError(w, held.Promise(until))
		time.Sleep(time.Second) // it is watched
		w.f.Delete(held.AllKeys()[1])
		synctest.Wait()
		w.oneCause(ErrKeyDeleted, held.Err())
		ctx, cancel := context.WithTimeout(w.Context(), 20*s.TTL())
		defer cancel()
		other := w.takes(ctx, w.session(), Request{}, "a")
		time.Sleep(until.Sub(clock.Now()) - time.Nanosecond)
		assert.True(w, other.waits())
		w.release(other.won())
		w.clear()
	})
}

// ML6, A6: a key that somebody else took off its lease is deleted however the set ends, and in any
// layout.
func TestAKeyOfASetThatIsOffItsLeaseDoesNotStay(t *testing.T) {
	for _, etcd := range []bool{false, true} {
		for name, end := range map[string]func(w *fixture, s *session.Session, held *Acquisition){
			"released": func(w *fixture, _ *session.Session, held *Acquisition) {
				assert.ErrorIs(w, held.Release(w.Context(), errGivenBack), ErrKeyOverwritten)
			},
			"noticed, then released": func(w *fixture, _ *session.Session, held *Acquisition) {
				<-held.Done()
				assert.ErrorIs(w, held.Release(w.Context(), errGivenBack), ErrKeyOverwritten)
			},
			"noticed, then released and closed": func(w *fixture, s *session.Session, held *Acquisition) {
				<-held.Done()
				assert.ErrorIs(w, held.Release(w.Context(), errGivenBack), ErrKeyOverwritten)
				_ = s.Close(w.Context())
			},
			"noticed, then closed": func(w *fixture, s *session.Session, held *Acquisition) {
				<-held.Done()
				_ = s.Close(w.Context())
			},
			"noticed, and unclaimed": func(w *fixture, s *session.Session, held *Acquisition) {
				<-held.Done()
				time.Sleep(3 * s.TTL())
			},
			"held for too long": func(w *fixture, s *session.Session, held *Acquisition) {
				held.Forfeit(errors.New("too long"))
				time.Sleep(3 * s.TTL()) // the overwriting may be noticed first, and then nobody claims it
			},
		} {
			t.Run(name+map[bool]string{true: ", in etcd's layout"}[etcd], func(t *testing.T) {
				inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
					var qs []Queue
					for _, name := range []string{"namea", "nameb/b", "namec"} {
						q, err := New("", name, etcd)
						require.NoError(w, err)
						qs = append(qs, q)
					}
					s := w.session()
					held, err := Acquire(w.Context(), s, Request{}, qs...)
					require.NoError(w, err)
					time.Sleep(time.Second) // armed
					w.f.Put(held.AllKeys()[1], "another's", 0)
					w.f.Put(held.AllKeys()[2], "another's", 0)
					end(w, s, held)
					time.Sleep(time.Second)
					for _, key := range held.AllKeys() {
						assert.Nil(w, w.f.Get(key), "%s stays", key)
					}
					w.clear()
				})
			})
		}
	}
}

// Budget: if a revocation deletes the keys of many sets, no set requests the deletion again.
func TestSetsWhoseLeaseIsRevokedSendNothing(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		var sets []*Acquisition
		for _, more := range []string{"b", "c", "d"} {
			sets = append(sets, w.takes(w.Context(), s, Request{}, "+a", more).won())
		}
		time.Sleep(time.Second)           // armed
		for _, m := range w.f.Members() { // the sets learn first
			m.EditWatches(func(r *pb.WatchResponse) []*pb.WatchResponse {
				r.Events = slices.DeleteFunc(r.Events, func(ev *mvccpb.Event) bool { return !strings.HasPrefix(string(ev.Kv.Key), "name") })
				return []*pb.WatchResponse{r}
			})
		}
		sent := w.f.Inject(isRelease.rule(etcdfake.Rule{HoldAnswer: time.Nanosecond}))
		w.f.Revoke(s.ID())
		for _, set := range sets {
			<-set.Done()
			require.ErrorIs(w, set.Err(), ErrLost)
		}
		<-s.Done()
		w.oneCause(errRevoked, s.Err())
		for _, set := range sets {
			assert.Equal(w, set.Err(), set.Release(w.Context(), errGivenBack))
		}
		time.Sleep(3 * s.TTL())
		assert.Zero(w, sent.Hits())
		w.clear()
	})
}
