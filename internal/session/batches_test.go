package session

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/lane"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
	"github.com/pawl-locks/pawl/lease"
)

// sessions grants n of one client.
func (r *rig) sessions(n int, o lease.Options) (all []*Session) {
	r.t.Helper()
	for range n {
		all = append(all, r.session(o))
	}
	return all
}

// many is a number of sessions that fill a batch, or in the everyday lanes of a few.
func many() int { return lane.Of(10, 100) }

// requireAll asserts that all are valid.
func requireAll(t *testing.T, all []*Session, format string, args ...any) {
	t.Helper()
	for i, s := range all {
		require.NoError(t, s.Err(), "session %d of %d: %s", i, len(all), fmt.Sprintf(format, args...))
	}
}

// Budget: what a client's sessions send in a TTL.
func TestManySessionsOfAClientRenewWithFewRequests(t *testing.T) {
	for _, at := range []struct{ sessions, renewals, reads, streams int }{
		{1, 4, 4, 0},
		{2, 10, 5, 0},
		{100, 500, 5, 0},
		{1_000, 5_000, 5 * 8, 8}, // as many are kept as are in use at one time
	} {
		if at.sessions > 100 && !lane.Proof() {
			continue
		}
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			all := r.sessions(at.sessions, lease.Options{TTL: 20 * time.Second})
			sleep(40*time.Second + 500*time.Millisecond) // the first one has joined
			before := r.Counts()
			sleep(20 * time.Second)
			n := r.Counts().Since(before)
			assert.Equal(t, at.renewals, n.Received["LeaseKeepAlive"], "%d sessions", at.sessions)
			assert.Equal(t, at.reads, n.Received["Txn"], "%d sessions", at.sessions)
			assert.LessOrEqual(t, n.Opened["LeaseKeepAlive"], at.streams, "%d sessions", at.sessions)
			requireAll(t, all, "healthy")
		})
	}
}

// Sessions whose renewals are not due at about the same time, and one that reads many keys,
// renew as if each were alone.
func TestWhatIsNotDueTogetherRenewsAlone(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		r.session(lease.Options{TTL: 20 * time.Second})
		sleep(2500 * time.Millisecond)
		r.session(lease.Options{TTL: 20 * time.Second})
		sleep(10 * time.Second)
		before := r.Counts()
		sleep(20 * time.Second)
		n := r.Counts().Since(before)
		assert.Equal(t, 8, n.Received["LeaseKeepAlive"])
		assert.Equal(t, 8, n.Received["Txn"])
	})
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		all := r.sessions(2, lease.Options{TTL: 20 * time.Second})
		held := r.hold(all[0], maxBatchKeys)
		before := r.Counts()
		sleep(20*time.Second + 500*time.Millisecond)
		n := r.Counts().Since(before)
		assert.Equal(t, 8, n.Received["LeaseKeepAlive"])
		assert.Equal(t, 8, n.Received["Txn"])
		for _, c := range held {
			assert.Equal(t, 4, c.looks(), "every round")
		}
	})
}

// Rule N1: the read of a batch looks at the lock keys of each of its sessions, and shows them to that session.
func TestTheReadOfABatchShowsEachSessionItsOwnKeys(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		all := r.sessions(100, lease.Options{TTL: 8 * time.Second})
		sleep(24*time.Second + 100*time.Millisecond)
		var held []*dependent
		for i, s := range all {
			c := &dependent{own: fmt.Sprintf("lock/%d", i), predecessor: fmt.Sprintf("lock/%d", i+1)}
			r.Put(c.own, "", s.ID())
			require.NoError(t, s.Wait(&c.hook, c))
			held = append(held, c)
		}
		before := r.Counts()
		sleep(8 * time.Second)
		n := r.Counts().Since(before)
		assert.Equal(t, 5*3, n.Received["Txn"], "42 sessions with 3 keys each fit into one")
		for i, c := range held {
			require.Equal(t, 5, c.looks())
			for _, o := range c.observed {
				own := r.Get(c.own)
				assert.Equal(t, Observed{own.CreateRevision, own.ModRevision}, o.own)
				assert.Equal(t, i < len(held)-1, o.predecessor.Create > o.own.Create, "session %d", i)
			}
		}
		for i := range held[:50] { // one session's key goes, and no watch shows it
			r.Delete(held[i].own)
		}
		sleep(2 * time.Second)
		for i, c := range held {
			assert.Equal(t, i < 50, c.observed[len(c.observed)-1].own == Observed{}, "session %d", i)
		}
		requireAll(t, all, "the loss of a lock's key concerns the lock alone")
	})
}

// slowSends makes each message of a renewal take a while to be sent, and notes when its sending began.
type slowSends struct {
	grpc.ClientStream
	each  time.Duration
	mu    *sync.Mutex
	began map[int64][]clock.Instant
}

func (s slowSends) SendMsg(m any) error {
	s.mu.Lock()
	id := m.(*pb.LeaseKeepAliveRequest).ID
	s.began[id] = append(s.began[id], clock.Now())
	s.mu.Unlock()
	time.Sleep(s.each)
	return s.ClientStream.SendMsg(m)
}

// Rules T2, N1: in a batch, too, validity counts from when the lease's own renewal was sent,
// however long its sending, its answer or the read takes.
func TestInABatchValidityCountsFromEachOnesOwnSending(t *testing.T) {
	for _, late := range []time.Duration{0, 10 * time.Millisecond, 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			fake := etcdfake.New(etcdfake.Options{Members: 3, ExpiryTick: -1})
			t.Cleanup(fake.Close)
			var mu sync.Mutex
			began := map[int64][]clock.Instant{}
			slow := func(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
				st, err := next(ctx, d, c, method, o...)
				if method == pb.Lease_LeaseKeepAlive_FullMethodName {
					st = slowSends{st, 5 * time.Millisecond, &mu, began}
				}
				return st, err
			}
			r := &rig{fake, t, newHost(t, fake, "ns", grpc.WithStreamInterceptor(slow))}
			all := r.sessions(20, lease.Options{TTL: 15 * time.Second})
			mu.Lock()
			for _, s := range all {
				began[s.ID()] = []clock.Instant{s.validity.window().sent} // the grant's
			}
			mu.Unlock()
			r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", HoldAnswer: late})
			r.Inject(etcdfake.Rule{Op: "confirm sessions", HoldAnswer: 3 * late})
			before := r.Counts()
			sleep(3500 * time.Millisecond) // a batch, sent 3 s after the grants
			if late == 0 {
				assert.Equal(t, 1, r.Counts().Since(before).Received["Txn"], "they were in one batch")
			}
			seen := map[clock.Instant]bool{}
			for range 100 {
				for _, s := range all {
					w := s.validity.window()
					seen[w.sent] = true
					mu.Lock()
					require.Contains(t, began[s.ID()], w.sent, "validity counts from when it was sent")
					mu.Unlock()
					require.LessOrEqual(t, s.Deadline().Add(2500*time.Millisecond), r.expiry(s), "late by %v", late)
				}
				sleep(100 * time.Millisecond)
			}
			if late == 0 {
				assert.Greater(t, len(seen), 60, "each has its own")
			}
		})
	}
}

// farAway delivers the first answer to what was sent only after a while, and the others with it.
type farAway struct {
	grpc.ClientStream
	delay time.Duration
	sent  *bool
}

func (s farAway) SendMsg(m any) error {
	*s.sent = true
	return s.ClientStream.SendMsg(m)
}

func (s farAway) RecvMsg(m any) error {
	if *s.sent {
		*s.sent = false
		select {
		case <-time.After(s.delay):
		case <-s.Context().Done():
		}
	}
	return s.ClientStream.RecvMsg(m)
}

// Where round trips are longer than a batch has for its answers, batches are rarely tried.
func TestBatchesThatAlwaysFailAreRarelyTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 3})
		t.Cleanup(fake.Close)
		far := func(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			st, err := next(ctx, d, c, method, o...)
			if err == nil && method == pb.Lease_LeaseKeepAlive_FullMethodName {
				st = farAway{st, 100 * time.Millisecond, new(bool)}
			}
			return st, err
		}
		r := &rig{fake, t, newHost(t, fake, "ns", grpc.WithStreamInterceptor(far))}
		all := r.sessions(20, lease.Options{TTL: 3 * time.Second})
		sleep(10 * time.Second)
		before := r.renewals()
		sleep(30 * time.Second)
		requireAll(t, all, "far away")
		assert.LessOrEqual(t, r.renewals()-before, 800*3/2, "alone it would be 800")
	})
}

// Rule N2: an answer counts for the lease that it names, in the order of the renewals, and what follows one that is
// missing or is another's counts for nothing.
func TestAnAnswerInABatchCountsForNoOtherLease(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"missing": {Lose: true},
		"another's": {Edit: func(_ etcdfake.Request, m proto.Message) {
			m.(*pb.LeaseKeepAliveResponse).ID++
		}},
		"gone, and said of the one before": {Forge: func(q etcdfake.Request) (proto.Message, error) {
			return &pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{}, ID: q.Message.(*pb.LeaseKeepAliveRequest).ID - 1}, nil
		}},
	} {
		inBubble(t, etcdfake.Options{Members: 3, ExpiryTick: -1}, func(t *testing.T, r *rig) {
			all := r.sessions(10, lease.Options{TTL: 12 * time.Second})
			rule.Method = "LeaseKeepAlive"
			rule.Match = func(q etcdfake.Request) bool { return q.Message.(*pb.LeaseKeepAliveRequest).ID == all[4].ID() }
			r.Inject(rule)
			for range 300 {
				sleep(100 * time.Millisecond)
				for i, s := range all {
					if i == 4 {
						continue
					}
					require.NoError(t, s.Err(), name)
					require.LessOrEqual(t, s.Deadline().Add(2*time.Second), r.expiry(s), "%s: session %d", name, i)
				}
			}
			oneCause(t, all[4].Err(), lease.ErrExpired)
		})
	}
}

// Rule N4: what befalls one session of a batch delays no other beyond when it would have renewed alone, and from the next
// round on costs it nothing.
func TestOneSessionsFaultIsNotItsBatchs(t *testing.T) {
	of := func(s *Session) func(etcdfake.Request) bool {
		return func(q etcdfake.Request) bool { return q.Message.(*pb.LeaseKeepAliveRequest).ID == s.ID() }
	}
	for name, at := range map[string]struct {
		befall func(r *rig, s *Session)
		want   error // of the one; nil: it lives on
		alone  int   // how many renewals the others make alone, at the most
	}{
		"stalled": {func(r *rig, s *Session) {
			r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Match: of(s), HoldAnswer: time.Hour})
		}, lease.ErrExpired, 99},
		"silent": {func(r *rig, s *Session) { r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Match: of(s), Lose: true}) }, lease.ErrExpired, 99},
		"forbidden": {func(r *rig, s *Session) {
			r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Match: of(s), Lose: true, Err: rpctypes.ErrGRPCPermissionDenied})
		}, lease.ErrExpired, 99},
		"its read is forbidden": {func(r *rig, s *Session) {
			r.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Err: rpctypes.ErrGRPCPermissionDenied, Match: func(q etcdfake.Request) bool {
				return slices.ContainsFunc(q.Message.(*pb.TxnRequest).Success, func(op *pb.RequestOp) bool { return string(op.GetRequestRange().GetKey()) == s.key })
			}})
		}, lease.ErrExpired, 99},
		"a lock's read is forbidden": {func(r *rig, s *Session) {
			c := r.hold(s, 1)[0]
			r.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Err: rpctypes.ErrGRPCPermissionDenied, Match: func(q etcdfake.Request) bool {
				return slices.ContainsFunc(q.Message.(*pb.TxnRequest).Success, func(op *pb.RequestOp) bool { return string(op.GetRequestRange().GetKey()) == c.own })
			}})
		}, nil, 2 * 99}, // it tries a batch again after four rounds alone
		"revoked":   {func(r *rig, s *Session) { r.Revoke(s.ID()) }, lease.ErrRevoked, 0},
		"deleted":   {func(r *rig, s *Session) { r.Delete(s.key) }, lease.ErrRevoked, 0},
		"rewritten": {func(r *rig, s *Session) { r.Put(s.key, "x", s.ID()) }, lease.ErrRevoked, 0},
		"closed":    {func(r *rig, s *Session) { s.CloseInBackground() }, lease.ErrClosed, 0},
	} {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			all := r.sessions(100, lease.Options{TTL: 12 * time.Second})
			for _, m := range r.Members() {
				muteWatches(m)
			}
			sleep(13 * time.Second)
			one, others := all[42], slices.Delete(slices.Clone(all), 42, 43)
			reads := r.ops()
			at.befall(r, one)
			for range 48 {
				sleep(500 * time.Millisecond)
				for _, s := range others {
					require.NoError(t, s.Err(), name)
					require.Greater(t, time.Until(s.Deadline()), 10*time.Second-3*time.Second-100*time.Millisecond, "%s: renewed in time", name)
				}
			}
			if at.want == nil {
				require.NoError(t, one.Err(), name)
			} else {
				oneCause(t, one.Err(), at.want)
			}
			alone := 0
			for _, n := range reads() {
				if n < minBatch {
					alone++
				}
			}
			assert.LessOrEqual(t, alone, at.alone+26, name) // and the one's own, of which one or two may be repeats
		})
	}
}

// Rules N3, N4: a session in a batch that comes to nothing renews alone when it would have without one.
func TestABatchThatIsNotAnsweredDelaysNobody(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"no answer": {Method: "LeaseKeepAlive", Hang: true, Lose: true},
		"one only":  {Method: "LeaseKeepAlive", Skip: 1, Hang: true, Lose: true},
		"no read":   {Op: "confirm sessions", Hang: true},
	} {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			all := r.sessions(20, lease.Options{TTL: 12 * time.Second})
			sleep(13 * time.Second)
			before := all[0].validity.window().sent
			f := r.Inject(rule)
			for f.Hits() == 0 {
				sleep(100 * time.Millisecond)
			}
			f.Lift() // all of the batch are under way
			due := before.Add(3 * time.Second).Time(clock.Now())
			sleep(time.Until(due))
			for _, s := range all {
				require.False(t, s.validity.window().sent.Time(clock.Now()).Before(due.Add(-600*time.Millisecond)), name)
			}
		})
	}
}

// Rule N4, F5: with authentication a foreign key on one lease ends the stream that its renewal is on. The others of its batch do not suffer.
func TestAForeignKeyOnOneLeaseDoesNotPoisonItsBatch(t *testing.T) {
	withAuth(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig, op operator) {
		all := r.sessions(100, lease.Options{TTL: 6 * time.Second})
		sleep(7 * time.Second)
		_, err := op.kv.Put(op.ctx(), &pb.PutRequest{Key: []byte("foreign"), Lease: all[10].ID()})
		require.NoError(t, err)
		<-all[10].Done()
		oneCause(t, all[10].Err(), lease.ErrExpired)
		assert.ErrorContains(t, all[10].Err(), "permission denied")
		rest := slices.Delete(slices.Clone(all), 10, 11)
		sleep(time.Minute)
		requireAll(t, rest, "a foreign key on one lease")
		assert.Len(t, r.bothPicked(), 3, "no member is blamed")
		before := r.Counts()
		sleep(6 * time.Second)
		assert.LessOrEqual(t, r.Counts().Since(before).Received["Txn"], 6, "they share batches again")
	})
}

// Rule N3: no single member can end any of a client's many sessions.
func TestManySessionsSurviveAnyFailureOfAnyOneMemberOfThree(t *testing.T) {
	for _, tr := range oneMembersFaults {
		for _, at := range []struct {
			n   int
			ttl time.Duration
		}{{many(), 3}, {2, 3}, {2, 15}}[:racedetector.Of(1, 3)] {
			name := fmt.Sprintf("%s/%d sessions/%ds", tr.name, at.n, at.ttl)
			t.Run(name, func(t *testing.T) {
				inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
					all := r.sessions(at.n, lease.Options{TTL: at.ttl * time.Second})
					for i := range 3 {
						sleep(time.Duration(i) * 777 * time.Millisecond) // other phases
						tr.on(r.Cluster, r.Member(i))
						sleep(5 * at.ttl * time.Second)
						requireAll(t, all, "member %d", i)
						r.LiftAll()
						r.Member(i).Heal()
						sleep(at.ttl * time.Second)
					}
				})
			})
		}
	}
}

// Rule N3 with authentication on, for many sessions of a client.
func TestManySessionsSurviveAnyFaultOfAnyOneMemberWithAuthenticationOn(t *testing.T) {
	faults := append(slices.Clone(oneMembersFaults), fault{"refuses every token", refusing})
	for _, tr := range faults {
		for _, n := range []int{2, many()}[lane.Of(1, 0):] {
			name := fmt.Sprintf("%s/%d sessions", tr.name, n)
			t.Run(name, func(t *testing.T) {
				withAuth(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig, _ operator) {
					all := r.sessions(n, lease.Options{TTL: 3 * time.Second})
					for i := range 3 {
						sleep(time.Duration(i) * 777 * time.Millisecond)
						tr.on(r.Cluster, r.Member(i))
						sleep(9 * time.Second)
						requireAll(t, all, "member %d", i)
						r.ForgetTokens()
						sleep(9 * time.Second)
						requireAll(t, all, "member %d, tokens ended", i)
						r.LiftAll()
						r.Member(i).Heal()
						sleep(3 * time.Second)
					}
				})
			})
		}
	}
}

// Rule N3: a stall of 1.6 s, as of an election, is survived by all of a client's sessions with the shortest TTL,
// whenever it begins.
func TestAStallOfAnElectionIsSurvivedByABatch(t *testing.T) {
	for phase := time.Duration(0); phase < time.Second; phase += lane.Of(200*time.Millisecond, 50*time.Millisecond) {
		inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
			all := r.sessions(30, lease.Options{TTL: 3 * time.Second})
			sleep(3*time.Second + phase)
			r.BlackHole()
			sleep(1600 * time.Millisecond)
			r.Heal()
			sleep(3 * time.Second)
			requireAll(t, all, "phase %v", phase)
		})
	}
}

// Hazard S6: one error of any kind in a batch ends no session.
func TestEachErrorInABatchIsSurvived(t *testing.T) {
	for _, err := range []error{
		rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCTimeout, rpctypes.ErrGRPCStopped, rpctypes.ErrGRPCPermissionDenied,
		rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCLeaseNotFound, rpctypes.ErrGRPCNoSpace,
		rpctypes.ErrGRPCTooManyOps,
	} {
		for _, where := range []etcdfake.Rule{
			{Method: "LeaseKeepAlive", Opening: true}, {Method: "LeaseKeepAlive", Skip: 7}, {Method: "LeaseKeepAlive", Skip: 7, Lose: true}, {Op: "confirm sessions"},
		} {
			inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
				all := r.sessions(20, lease.Options{TTL: 3 * time.Second})
				where.Err, where.Times = err, 1
				f := r.Inject(where)
				sleep(2600 * time.Millisecond)
				require.Equal(t, 1, f.Hits())
				requireAll(t, all, "%s: %v", where.Method+where.Op, err)
			})
		}
	}
}

// Rule N1: consecutive rounds of a batch go to different members.
func TestConsecutiveBatchesGoToDifferentMembers(t *testing.T) {
	for _, members := range []int{2, 3} {
		inBubble(t, etcdfake.Options{Members: members}, func(t *testing.T, r *rig) {
			all := r.sessions(20, lease.Options{TTL: 4 * time.Second})
			seen := r.keepAlives()
			sleep(12*time.Second + 100*time.Millisecond) // the first has joined
			skip := len(seen())
			sleep(32 * time.Second)
			requireAll(t, all, "healthy")
			got := seen()[skip:]
			require.Equal(t, 20*40, len(got))
			for i := 20; i < len(got); i++ {
				require.NotEqual(t, got[i-20].member, got[i].member, "renewals %d and %d", i-20, i)
			}
		})
	}
}

// Hazard S14, fact F3: a batch that a deposed leader confirms extends nothing.
func TestADeposedLeaderThatConfirmsABatchExtendsNothing(t *testing.T) {
	for phase := range 10 {
		inBubble(t, etcdfake.Options{Members: 3, ExpiryTick: -1}, func(t *testing.T, r *rig) {
			all := r.sessions(5, lease.Options{TTL: 3 * time.Second})
			r.OnChange(func(ch etcdfake.Change) {
				for _, s := range all {
					if ch.Deleted && ch.Key == s.key && ch.Why == etcdfake.ByExpiry {
						assert.Error(t, s.Err(), "phase %d", phase)
					}
				}
			})
			sleep(2*time.Second + time.Duration(phase)*75*time.Millisecond)
			leader, _ := r.Leader()
			r.Member(leader).Depose()
			for _, m := range r.Members() {
				if m != r.Member(leader) {
					m.BlackHole()
				}
			}
			sleep(10 * time.Second)
			for _, s := range all {
				oneCause(t, s.Err(), lease.ErrExpired)
			}
		})
	}
}

// Rule N1: each part of a batch is confirmed by its own answer's raft term.
func TestABatchIsConfirmedPartByPart(t *testing.T) {
	inBubble(t, etcdfake.Options{ExpiryTick: -1}, func(t *testing.T, r *rig) {
		all := r.sessions(10, lease.Options{TTL: 6 * time.Second})
		r.Inject(etcdfake.Rule{
			Method: "LeaseKeepAlive", Match: func(q etcdfake.Request) bool { return q.Message.(*pb.LeaseKeepAliveRequest).ID == all[3].ID() },
			Edit: func(_ etcdfake.Request, m proto.Message) { m.(*pb.LeaseKeepAliveResponse).Header.RaftTerm-- },
		})
		first := all[3].Deadline()
		for range 45 {
			sleep(100 * time.Millisecond)
			require.Equal(t, first, all[3].Deadline())
		}
		sleep(time.Minute)
		oneCause(t, all[3].Err(), lease.ErrExpired)
		requireAll(t, slices.Delete(all, 3, 4), "another's raft term")
	})
}

// A server that allows few operations is believed, at no session's cost.
func TestBatchesAreAsLargeAsTheServerAllows(t *testing.T) {
	inBubble(t, etcdfake.Options{MaxTxnOps: 16}, func(t *testing.T, r *rig) {
		all := r.sessions(100, lease.Options{TTL: 12 * time.Second})
		sleep(time.Minute)
		requireAll(t, all, "16 operations")
		// Five rounds in a TTL. If one session has left its batch, they begin a little earlier
		// each time, so that some TTLs have a part of a sixth.
		const ttls = 10
		renewals, fewest, reads := 0, math.MaxInt, math.MaxInt
		for range ttls {
			before := r.Counts()
			sleep(12 * time.Second)
			n := r.Counts().Since(before)
			renewals += n.Received["LeaseKeepAlive"]
			fewest = min(fewest, n.Received["LeaseKeepAlive"])
			reads = min(reads, n.Received["Txn"])
		}
		assert.LessOrEqual(t, fewest, 500)
		assert.LessOrEqual(t, reads, 5*14, "13 batches of up to 8 operations, and the session that has left")
		assert.LessOrEqual(t, renewals, ttls*540)
	})
}

// Sessions that end while a batch is under way leave nothing behind, and wait for nothing.
func TestEndingInTheMiddleOfABatchWaitsForNothing(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 2}, func(t *testing.T, r *rig) {
		all := r.sessions(10, lease.Options{TTL: 20 * time.Second})
		r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", HoldAnswer: time.Second})
		sleep(4100 * time.Millisecond)
		require.Equal(t, 1, r.renewals(), "a batch is under way")
		began := time.Now()
		for _, s := range all {
			require.NoError(t, s.Close(context.Background()))
			<-s.Stopped()
		}
		assert.Zero(t, time.Since(began))
		sleep(0)
		for _, m := range r.Members() {
			assert.Zero(t, m.Streams("LeaseKeepAlive"))
		}
		assert.Len(t, r.bothPicked(), 2, "no member is blamed")
	})
}

// The result of a batch may arrive while renewals are cancelled that another has overtaken: the
// session joins batches again afterwards.
func TestABatchsResultThatComesWhileRenewalsAreGivenUpIsReceived(t *testing.T) {
	r := &renewer{s: &Session{host: Host{Renewals: new(Renewals)}}, results: make(chan finished, maxUnderWay+1)}
	given := &renewing{}
	r.underWay, r.candidate.state = []*renewing{given}, sent
	r.results <- finished{&renewing{}, result{}, true}
	r.results <- finished{given, result{}, false}
	r.drain()
	assert.Equal(t, idle, r.candidate.state)
}

// Rules N1, A4: keys for which the read of a batch has no room, because they came after the batch was made, are read
// in the same round nevertheless.
func TestKeysThatDoNotFitIntoTheReadOfABatchAreReadAfterIt(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		all := r.sessions(1, lease.Options{TTL: 20 * time.Second})
		synctest.Wait() // there was one session only when it looked for a batch
		all = append(all, r.session(lease.Options{TTL: 20 * time.Second}))
		r.host.Renewals.readRefused(8) // room for 4 operations
		for i, s := range all {
			c := &dependent{own: fmt.Sprintf("held/%d", i)}
			r.Put(c.own, "", s.ID())
			require.NoError(t, s.Hold(&c.hook, c, 0))
		}
		sleep(8900 * time.Millisecond) // each has renewed alone once
		r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", HoldAnswer: 150 * time.Millisecond})
		sleep(200 * time.Millisecond)
		require.Equal(t, 3, r.renewals(), "a batch is under way, whose renewals are handled one after the other")
		var late []*dependent
		for i, s := range all {
			c := &dependent{own: fmt.Sprintf("late/%d", i), predecessor: "other"}
			r.Put(c.own, "", s.ID())
			require.NoError(t, s.Wait(&c.hook, c))
			late = append(late, c)
		}
		sleep(400 * time.Millisecond)
		require.Equal(t, 4, r.renewals(), "the batch has renewed them")
		for i, c := range late {
			assert.Equal(t, 1, c.looks(), "session %d", i)
		}
	})
}

// A batch that fails makes no herd: its sessions, which are due at one instant, do not all renew alone at that instant,
// and none of them later.
func TestTheSessionsOfABatchThatFailsRenewAloneOneAfterTheOther(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		all := r.sessions(100, lease.Options{TTL: 20 * time.Second})
		sleep(12 * time.Second)
		due := all[0].validity.window().sent.Time(clock.Now()).Add(5 * time.Second)
		r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Skip: 7, Times: 1, Lose: true, Err: rpctypes.ErrGRPCPermissionDenied})
		seen := r.keepAlives()
		sleep(time.Until(due) + time.Millisecond)
		at := map[time.Time]int{}
		for _, k := range seen() {
			at[k.at]++
		}
		most := 0
		for _, n := range at {
			most = max(most, n)
		}
		assert.LessOrEqual(t, most, 10, "at one instant")
		for _, s := range all {
			require.LessOrEqual(t, clock.Now().Sub(s.validity.window().sent), time.Second+time.Millisecond, "renewed when it is due, at the latest")
		}
	})
}
