package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
)

// fault is something that befalls one member.
type fault struct {
	name string
	on   func(*etcdfake.Cluster, *etcdfake.Member)
}

// noKeepAlive makes a member accept renewals and never answer them (hazard S5).
func noKeepAlive(c *etcdfake.Cluster, m *etcdfake.Member) {
	c.Inject(etcdfake.Rule{Member: m, Method: "LeaseKeepAlive", Lose: true})
}

var oneMembersFaults = []fault{
	{"black hole", func(_ *etcdfake.Cluster, m *etcdfake.Member) { m.BlackHole() }},
	{"deaf", func(_ *etcdfake.Cluster, m *etcdfake.Member) { m.Deafen() }},
	{"mute", func(_ *etcdfake.Cluster, m *etcdfake.Member) { m.Mute() }},
	{"cut", func(_ *etcdfake.Cluster, m *etcdfake.Member) { m.Cut() }},
	{"isolated", func(_ *etcdfake.Cluster, m *etcdfake.Member) { m.Isolate() }},
	{"stopped", func(_ *etcdfake.Cluster, m *etcdfake.Member) { m.Stop() }},
	{"frozen", func(_ *etcdfake.Cluster, m *etcdfake.Member) { m.Freeze() }},
	{"deposed", func(_ *etcdfake.Cluster, m *etcdfake.Member) { m.Depose() }},
	{"never answers KeepAlive", noKeepAlive},
	{"never opens KeepAlive", func(c *etcdfake.Cluster, m *etcdfake.Member) {
		c.Inject(etcdfake.Rule{Member: m, Method: "LeaseKeepAlive", Opening: true, Lose: true})
	}},
	{"never answers Txn", func(c *etcdfake.Cluster, m *etcdfake.Member) {
		c.Inject(etcdfake.Rule{Member: m, Method: "Txn", Hang: true})
	}},
}

// Rule N3: no single member can end a session: hazards S4, S5.
// rule: N3
func TestSessionSurvivesAnyFailureOfAnyOneMemberOfThree(t *testing.T) {
	for _, tr := range oneMembersFaults {
		for _, ttl := range racedetector.Of([]time.Duration{3}, testscale.Of([]time.Duration{3, 15}, []time.Duration{3, 5, 10, 15})) {
			t.Run(fmt.Sprintf("%s/%ds", tr.name, ttl), func(t *testing.T) {
				inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
					s := r.session(lease.Options{TTL: ttl * time.Second})
					for i := range 3 {
						sleep(time.Duration(i) * 777 * time.Millisecond) // other phases
						tr.on(r.Cluster, r.Member(i))
						sleep(10 * ttl * time.Second)
						require.NoError(t, s.Err(), "member %d", i)
						require.Positive(t, time.Until(s.Deadline()))
						r.LiftAll()
						r.Member(i).Heal()
						sleep(ttl * time.Second)
					}
				})
			})
		}
	}
}

// Rule N3: if all other members fail, at once or by silence, the one that confirmed last is queried
// again.
func TestSessionSurvivesOnTheOneMemberThatItsClientReaches(t *testing.T) {
	for _, members := range testscale.Of([]int{2, 3}, []int{2, 3, 5}) {
		for name, fault := range map[string]func(*etcdfake.Member){
			"black hole": (*etcdfake.Member).BlackHole, "cut": (*etcdfake.Member).Cut, "mute": (*etcdfake.Member).Mute,
		} {
			for good := range members {
				inBubble(t, etcdfake.Options{Members: members}, func(t *testing.T, r *rig) {
					s := r.session(lease.Options{TTL: 3 * time.Second})
					for i, m := range r.Members() {
						if i != good {
							fault(m)
						}
					}
					sleep(time.Minute)
					require.NoError(t, s.Err(), "%d members, all but %d: %s", members, good, name)
				})
			}
		}
	}
}

// Rule N1: consecutive rounds go to different members, so that a wrong confirmation is corrected soon.
func TestConsecutiveRoundsGoToDifferentMembers(t *testing.T) {
	for _, members := range []int{2, 3, 5} {
		inBubble(t, etcdfake.Options{Members: members}, func(t *testing.T, r *rig) {
			seen := r.keepAlives()
			s := r.session(lease.Options{TTL: 4 * time.Second})
			sleep(time.Minute)
			require.NoError(t, s.Err())
			got := seen()
			require.Len(t, got, 60)
			for i := 1; i < len(got); i++ {
				require.NotEqual(t, got[i-1].member, got[i].member, "rounds %d and %d", i-1, i)
			}
		})
	}
}

// asking is a renewal's arrival at a member.
type asking struct {
	member *etcdfake.Member
	at     time.Time
}

// keepAlives reports the renewals that arrive after the call.
func (r *rig) keepAlives() func() []asking {
	var mu sync.Mutex
	var all []asking
	r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Match: func(q etcdfake.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, asking{q.Member, time.Now()})
		return false
	}})
	return func() []asking {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// Rule N3: a renewal without an answer is joined by another, on another member,
// after 300 ms.
// rule: N3
func TestASlowRenewalIsJoinedAfter300Milliseconds(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 8 * time.Second})
		began := time.Now()
		r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Hang: true, Lose: true, Times: 1})
		seen := r.keepAlives()
		sleep(2*time.Second + 300*time.Millisecond - 1)
		assert.Empty(t, seen(), "the first was lost, and its hedge is not due")
		sleep(1)
		require.Len(t, seen(), 1)
		assert.Equal(t, 2300*time.Millisecond, seen()[0].at.Sub(began))
		assert.Equal(t, newWindow(clock.Instant{}, 8*time.Second, 0).margin, began.Add(2300*time.Millisecond+8*time.Second).Sub(s.Deadline()), "anchored at the hedge's sending")
	})
}

// … or after three round trips, if those are longer.
func TestASlowRenewalIsJoinedAfterThreeRoundTrips(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 2}, func(t *testing.T, r *rig) {
		for _, m := range r.Members() {
			m.SetDelay(etcdfake.Fixed(75*time.Millisecond), etcdfake.Fixed(75*time.Millisecond))
		}
		s := r.session(lease.Options{TTL: 20 * time.Second})
		sleep(time.Minute)
		seen := r.keepAlives()
		r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true, Times: 1})
		for len(seen()) < 2 {
			sleep(10 * time.Millisecond)
		}
		got := seen()
		assert.NotEqual(t, got[0].member, got[1].member)
		assert.InDelta(t, 450*time.Millisecond, got[1].at.Sub(got[0].at), float64(5*time.Millisecond))
		require.NoError(t, s.Err())
	})
}

// Rule N3: at least three renewals on at least two members fit before the
// deadline, however slow the members usually are.
// rule: N3
func TestThreeRenewalsOnTwoMembersFitBeforeTheDeadlineOnSlowMembers(t *testing.T) {
	for _, at := range []struct{ ttl, rtt time.Duration }{
		{3000, 0}, {3000, 100}, {3000, 350}, {15000, 0}, {15000, 500}, {15000, 1600}, {60000, 2900}, // a write is given up after 3 s
	} {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			for _, m := range r.Members() {
				m.SetDelay(nil, etcdfake.Fixed(at.rtt*time.Millisecond))
			}
			s := r.session(lease.Options{TTL: at.ttl * time.Millisecond})
			sleep(3 * at.ttl * time.Millisecond)
			require.NoError(t, s.Err())
			seen := r.keepAlives()
			r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true})
			deadline := s.Deadline()
			for d := deadline; !d.IsZero(); d = s.Deadline() { // what is under way may still count
				deadline = d
				sleep(time.Until(d))
			}
			where, n := map[*etcdfake.Member]bool{}, 0
			for _, a := range seen() {
				if !a.at.Before(deadline.Add(-at.ttl*time.Millisecond*7/12)) && a.at.Before(deadline) {
					where[a.member] = true
					n++
				}
			}
			assert.GreaterOrEqual(t, n, 3, "TTL %d ms, round trip %d ms", at.ttl, at.rtt)
			assert.GreaterOrEqual(t, len(where), 2)
		})
	}
}

// Rule N3 in numbers: the table on the page shows when the renewals of a round are sent, counted from
// the last renewal that was confirmed, and in parentheses what is then left before the deadline.
func TestThePageSaysWhenRenewalsAreSent(t *testing.T) {
	var table strings.Builder
	for _, ttl := range []time.Duration{3, 5, 10, 30, 60} {
		ttl *= time.Second
		whole := newWindow(clock.Instant{}, ttl, 0).whole()
		left := func(at time.Duration) string { return fmt.Sprintf("%s (%s)", seconds(at), seconds(whole-at)) }
		for _, trip := range []time.Duration{0, min(ttl/12, 2500*time.Millisecond)} {
			alone := unanswered(t, ttl, trip)
			require.GreaterOrEqual(t, len(alone), 3)
			fourth := "–"
			if len(alone) > 3 {
				fourth = left(alone[3].at)
			}
			members := map[*etcdfake.Member]bool{alone[0].member: true, alone[1].member: true, alone[2].member: true}
			fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s | %s | %d |\n", seconds(ttl), cmp.Or(seconds(trip), "short"), seconds(whole),
				left(alone[0].at), left(alone[1].at), left(alone[2].at), fourth, len(members))
		}
	}
	page, err := os.ReadFile("../../docs/decisions/own-renewals.md")
	require.NoError(t, err)
	assert.True(t, strings.Contains(string(page), table.String()), "the table is:\n%s", table.String())
}

// seconds formats d as on the page. It is "" for none.
func seconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatFloat(math.Round(d.Seconds()*100)/100, 'f', -1, 64) + " s"
}

// sending is a renewal of a session, and how long after its last confirmed renewal it was sent.
type sending struct {
	at     time.Duration
	member *etcdfake.Member
}

// unanswered are the renewals of a session from a confirmed one to its deadline, none of which is
// answered.
func unanswered(t *testing.T, ttl, trip time.Duration) (all []sending) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: ttl})
		for _, m := range r.Members() {
			m.SetDelay(nil, etcdfake.Fixed(trip))
		}
		granted := s.Deadline()
		for s.Deadline().Equal(granted) {
			sleep(time.Millisecond)
		}
		sent := s.Deadline().Add(-newWindow(clock.Instant{}, ttl, 0).whole())
		seen := r.keepAlives()
		r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true})
		sleep(time.Until(s.Deadline()))
		for _, a := range seen() {
			all = append(all, sending{a.at.Sub(sent), a.member})
		}
	})
	return all
}

// Rule N3, hazard S5: one member, and a stall shorter than what is left of the window.
func TestSessionOnOneMemberSurvivesAStallShorterThanItsValidity(t *testing.T) {
	for _, stall := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 1700 * time.Millisecond} {
		inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{TTL: 3 * time.Second})
			for range 20 {
				sleep(613 * time.Millisecond)
				r.BlackHole()
				sleep(stall)
				r.Heal()
				sleep(3 * time.Second)
				require.NoError(t, s.Err(), "stall of %v", stall)
			}
		})
	}
}

// Rule N3: the first renewal comes at a quarter of the TTL and not at a third, so that a session with
// the shortest TTL survives a stall of 1.6 s, like that of an election, whenever it begins.
func TestAStallOfAnElectionIsSurvivedWheneverItBegins(t *testing.T) {
	for phase := time.Duration(0); phase < time.Second; phase += 50 * time.Millisecond {
		inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{TTL: 3 * time.Second})
			sleep(3*time.Second + phase)
			r.BlackHole()
			sleep(1600 * time.Millisecond)
			r.Heal()
			sleep(3 * time.Second)
			require.NoError(t, s.Err(), "phase %v", phase)
		})
	}
}

// Hazard S6: no single error ends the renewals.
func TestEachCodeOnceOnOpenAnswerOrReadIsSurvived(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		for _, where := range []etcdfake.Rule{
			{Method: "LeaseKeepAlive", Opening: true}, {Method: "LeaseKeepAlive"},
			{Method: "LeaseKeepAlive", Lose: true}, {Op: "confirm session"}, {Op: "confirm session", Lose: true},
		} {
			t.Run(fmt.Sprintf("%s/%s/open=%v/lost=%v", code, where.Method+where.Op, where.Opening, where.Lose), func(t *testing.T) {
				inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
					s := r.session(lease.Options{TTL: 3 * time.Second})
					where.Err, where.Times = status.Error(code, "once"), 1
					f := r.Inject(where)
					sleep(2600 * time.Millisecond)
					require.Equal(t, 1, f.Hits())
					require.NoError(t, s.Err())
				})
			})
		}
	}
}

// Hazard S7: the first failure is followed by another renewal at once, on a new stream, and later ones
// after waits that leave room for many.
func TestAfterAFailureTheNextRenewalIsAtOnceAndLaterOnesArePaced(t *testing.T) {
	for _, ttl := range []time.Duration{3 * time.Second, 15 * time.Second, 300 * time.Second} {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			began := time.Now()
			r.session(lease.Options{TTL: ttl})
			seen := r.keepAlives()
			r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true, Err: rpctypes.ErrGRPCStopped})
			sleep(ttl)
			got := seen()
			require.GreaterOrEqual(t, len(got), 10, "TTL %v", ttl)
			assert.Equal(t, ttl/4, got[0].at.Sub(began))
			assert.Zero(t, got[1].at.Sub(got[0].at), "at once")
			assert.NotEqual(t, got[0].member, got[1].member)
			assert.LessOrEqual(t, got[2].at.Sub(got[1].at), ttl/20)
			for i := 2; i < len(got); i++ {
				assert.LessOrEqual(t, got[i].at.Sub(got[i-1].at), ttl/8)
			}
			assert.Less(t, len(got), 200, "no hot loop")
		})
	}
}

// Hazards S6, S8: errors of any kind that last shorter than the window do not end the session, and
// after NoLeader another member is tried.
// rule: N5
func TestAStormOfErrorsShorterThanTheWindowIsSurvived(t *testing.T) {
	for _, err := range []error{
		rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCTimeout, rpctypes.ErrGRPCStopped, rpctypes.ErrGRPCPermissionDenied,
		rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCLeaseNotFound, rpctypes.ErrGRPCNoSpace,
		errors.New("anything"), etcdapi.ErrNotSupportedForLearner,
	} {
		for _, rule := range []etcdfake.Rule{{Method: "LeaseKeepAlive"}, {Op: "confirm session"}} {
			inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
				s := r.session(lease.Options{TTL: 6 * time.Second})
				rule.Lose, rule.Err = true, err
				f := r.Inject(rule)
				sleep(4700 * time.Millisecond) // of 5 s
				require.NoError(t, s.Err(), "%s: %v", rule.Method+rule.Op, err)
				require.NotZero(t, f.Hits())
				require.Less(t, f.Hits(), 60, "no hot loop")
				f.Lift()
				sleep(time.Minute)
				require.NoError(t, s.Err())
			})
		}
	}
}

// Hazard S8: after the end no renewal is sent any more.
// rule: N5
func TestAfterTheEndNoRenewalIsSent(t *testing.T) {
	for name, end := range map[string]func(*rig, *Session){
		"close":    func(_ *rig, s *Session) { _ = s.Close(context.Background()) },
		"detach":   func(_ *rig, s *Session) { s.Detach() },
		"revoked":  func(r *rig, s *Session) { r.Revoke(s.ID()) },
		"deleted":  func(r *rig, s *Session) { r.Delete(s.own.key) },
		"rewriten": func(r *rig, s *Session) { r.Put(s.own.key, "x", s.ID()) },
		"expired": func(r *rig, s *Session) {
			r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Err: rpctypes.ErrGRPCNoLeader})
		},
	} {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{TTL: 3 * time.Second})
			sleep(5 * time.Second)
			end(r, s)
			<-s.Done()
			<-s.Stopped()
			synctest.Wait()
			before := r.renewals()
			sleep(time.Minute)
			assert.Equal(t, before, r.renewals(), name)
			for _, m := range r.Members() {
				assert.Zero(t, m.Streams("LeaseKeepAlive"), name)
			}
		})
	}
}

// Rule N2: each renewal has its own stream, which the member ends after its answer.
// rule: N2
func TestEachRenewalHasAStreamOfItsOwn(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 4 * time.Second})
		before := r.Counts()
		for range 40 {
			sleep(time.Second)
			for _, m := range r.Members() {
				require.Zero(t, m.Streams("LeaseKeepAlive"), "between two renewals")
			}
		}
		n := r.Counts().Since(before)
		assert.Equal(t, 40, n.Opened["LeaseKeepAlive"])
		assert.Equal(t, 40, n.Received["LeaseKeepAlive"])
		assert.Equal(t, 40, n.Received["Txn"], "budget: one read each")
		require.NoError(t, s.Err())
	})
}

// Rule N2: a late answer is dropped with its stream, and never counted for a
// renewal that was sent after it.
// rule: N2
func TestALateAnswerIsNeverCountedForALaterRenewal(t *testing.T) {
	for _, members := range []int{1, 3} {
		for late := 100 * time.Millisecond; late < 6*time.Second; late += 217 * time.Millisecond {
			inBubble(t, etcdfake.Options{Members: members, ExpiryTick: -1}, func(t *testing.T, r *rig) {
				s := r.session(lease.Options{TTL: 6 * time.Second})
				sleep(10 * time.Second)
				r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", HoldAnswer: late, Times: 1})
				r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Skip: members - 1, Lose: true})
				for end := time.Now().Add(15 * time.Second); s.Err() == nil && time.Now().Before(end); {
					require.False(t, s.Deadline().Add(time.Second).After(r.expiry(s)), "an answer %v late", late)
					sleep(50 * time.Millisecond)
				}
				oneCause(t, s.Err(), lease.ErrExpired)
			})
		}
	}
}

// Rule N2: the stream of a renewal that was given up is closed.
func TestAStreamWithoutAnAnswerIsClosed(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 2}, func(t *testing.T, r *rig) {
		r.session(lease.Options{TTL: 8 * time.Second})
		f := r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true, Times: 1})
		sleep(2 * time.Second)
		require.Equal(t, 1, r.Member(0).Streams("LeaseKeepAlive")+r.Member(1).Streams("LeaseKeepAlive"))
		sleep(300 * time.Millisecond) // another renewal is confirmed
		require.Equal(t, 1, f.Hits())
		for _, m := range r.Members() {
			assert.Zero(t, m.Streams("LeaseKeepAlive"))
		}
	})
}

// A stream that a member does not end is not waited for.
func TestAStreamThatDoesNotEndIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		k := renewal{stream: neverEnding{ended: ctx.Done()}}
		began := time.Now()
		k.finish(cancel)
		assert.Equal(t, finishFor, time.Since(began))
	})
}

// neverEnding is a stream whose end does not come until it is cancelled.
type neverEnding struct {
	pb.Lease_LeaseKeepAliveClient
	ended <-chan struct{}
}

func (n neverEnding) Recv() (*pb.LeaseKeepAliveResponse, error) {
	<-n.ended
	return nil, context.Canceled
}

// Rule N2: a renewal is one round trip and its read another. Nothing else is waited for.
// rule: T2
func TestARenewalTakesTwoRoundTrips(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 8 * time.Second})
		r.Member(0).SetDelay(etcdfake.Fixed(40*time.Millisecond), etcdfake.Fixed(60*time.Millisecond))
		first := s.Deadline()
		sleep(2*time.Second + 200*time.Millisecond - 1)
		assert.Equal(t, first, s.Deadline())
		sleep(1)
		assert.Equal(t, first.Add(2*time.Second), s.Deadline(), "counted from the sending")
	})
}

// Rule N4: what happens to one lease affects no other session.
// rule: N4
func TestAStalledOrForbiddenLeaseDoesNotTouchAnotherSession(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"stalled":   {HoldAnswer: time.Hour},
		"silent":    {Lose: true},
		"forbidden": {Lose: true, Err: rpctypes.ErrGRPCPermissionDenied},
	} {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			a, b := r.session(lease.Options{TTL: 6 * time.Second}), r.session(lease.Options{TTL: 6 * time.Second})
			rule.Method = "LeaseKeepAlive"
			rule.Match = func(q etcdfake.Request) bool { return q.Message.(*pb.LeaseKeepAliveRequest).ID == a.ID() }
			r.Inject(rule)
			sleep(4 * time.Second)
			<-a.Done()
			oneCause(t, a.Err(), lease.ErrExpired)
			for range 600 {
				sleep(100 * time.Millisecond)
				require.NoError(t, b.Err(), name)
				require.Greater(t, time.Until(b.Deadline()), 3*time.Second, "%s: renewed in time", name)
			}
		})
	}
}

// Rule N4: a lease that may not be renewed does not turn others away from the
// members that say so.
// rule: N4
func TestAForbiddenLeaseGradesNoMemberDown(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 2}, func(t *testing.T, r *rig) {
		m := r.host.Cluster.Members()
		k := renewal{s: &Session{host: r.host}, member: m[0], queried: true}
		k.blame(rpctypes.ErrGRPCPermissionDenied)
		k.blame(rpctypes.ErrGRPCInvalidAuthToken)
		assert.Equal(t, []*cluster.Member{m[0], m[1]}, r.bothPicked())
		k.blame(rpctypes.ErrGRPCNoLeader)
		assert.Equal(t, []*cluster.Member{m[1]}, r.bothPicked())
	})
}

// bothPicked are the members that Pick returns, sorted by their order.
func (r *rig) bothPicked() []*cluster.Member {
	seen := map[*cluster.Member]bool{}
	for range 10 {
		seen[r.host.Cluster.Pick()] = true
	}
	var out []*cluster.Member
	for _, m := range r.host.Cluster.Members() {
		if seen[m] {
			out = append(out, m)
		}
	}
	return out
}

// Closing a session in the middle of a renewal says nothing about the member.
func TestClosingASessionDuringARenewalGradesNoMemberDown(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 2}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 4 * time.Second})
		r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", HoldAnswer: 100 * time.Millisecond})
		sleep(1050 * time.Millisecond)
		require.Equal(t, 1, r.renewals(), "one is under way")
		closing := time.Now()
		require.NoError(t, s.Close(context.Background()))
		<-s.Stopped()
		assert.Zero(t, time.Since(closing), "and waits for nothing")
		assert.Len(t, r.bothPicked(), 2)
	})
}

// A member that was overtaken by a hedge is graded down, so the next request goes to another one first.
func TestAMemberThatWasOvertakenIsGradedDown(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 2}, func(t *testing.T, r *rig) {
		r.session(lease.Options{TTL: 4 * time.Second})
		f := r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", HoldAnswer: time.Second, Times: 1})
		sleep(1400 * time.Millisecond)
		require.Equal(t, 1, f.Hits())
		assert.Len(t, r.bothPicked(), 1)
	})
}

// Budget: four renewals a TTL, and between them no goroutine but those that wait for the next and for the deadline.
func TestAHundredSessionsTakeAtMostThreeGoroutinesEach(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		r.session(lease.Options{TTL: 40 * time.Second}) // the connections, the watch's stream
		sleep(time.Second)
		before := goroutines()
		for range 100 {
			r.session(lease.Options{TTL: 40 * time.Second})
		}
		sleep(time.Second)
		assert.LessOrEqual(t, goroutines()-before, 300)
		sleep(11 * time.Second)
		assert.LessOrEqual(t, goroutines()-before, 300)
	})
}
