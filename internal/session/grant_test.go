package session

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
)

// Budget: a new session costs one grant and one transaction.
func TestANewSessionCostsOneGrantAndOneTransactionAndOneWatch(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		synctest.Wait() // for Dial's other probes
		before := r.Counts()
		r.session(lease.Options{})
		synctest.Wait()
		assert.Equal(t, map[string]int{"LeaseGrant": 1, "Txn": 1, "Watch": 1}, r.Counts().Since(before).Received)
	})
}

// The session key is on the lease, and names the holder for people. No two writes of it have the same
// value.
func TestTheSessionKeySaysWhoseItIs(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{Owner: `me "and" you`})
		key, mod := s.Key()
		assert.Equal(t, fmt.Sprintf("ns//pawl/%x", s.ID()), key)
		kv := r.Get(key)
		require.NotNil(t, kv)
		assert.Equal(t, s.ID(), kv.Lease)
		assert.Equal(t, mod, kv.ModRevision)
		var v struct {
			Owner, Host, Nonce string
			PID                int
			Since              time.Time
		}
		require.NoError(t, json.Unmarshal(kv.Value, &v))
		assert.Equal(t, `me "and" you`, v.Owner)
		assert.Equal(t, s.owner, v.Owner)
		assert.Equal(t, os.Getpid(), v.PID)
		assert.WithinDuration(t, time.Now(), v.Since, time.Second)
		assert.NotEmpty(t, keys.SessionNonce(kv.Value))

		assert.Equal(t, `me "and" you`, keys.ParseIdentity(s.LabelOf("", false, "a", []string{"b"})).Owner)
		assert.True(t, keys.IsPlain(s.LabelOf("", false, "a", nil)), "the session's key says it")
	})
}

// A write fails in three ways: not applied, applied with the answer lost, and
// silence after either.
func lossesOf(code codes.Code) map[string]etcdfake.Rule {
	err := status.Error(code, "lost")
	return map[string]etcdfake.Rule{
		"not applied":            {Lose: true, Err: err},
		"applied":                {Err: err},
		"not applied and silent": {Lose: true},
		"applied and silent":     {Hang: true},
		"applied late":           {Late: 2 * time.Second, Err: err},
		"applied late, silent":   {Late: 2 * time.Second},
		"applied twice":          {Again: time.Second},
		"applied twice, lost":    {Again: time.Second, Err: err},
	}
}

// Hazards S9, A4: whatever answer is lost while a session is made, there is a session, or, after a
// bounded time, no lease is left.
func TestALostAnswerDuringTheGrantLeavesNoLeaseBehind(t *testing.T) {
	for _, op := range []string{"lease grant", "put session key"} {
		for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown, codes.Internal, codes.ResourceExhausted} {
			for name, rule := range lossesOf(code) {
				for _, times := range []int{1, 2, 0} {
					if code != codes.Unavailable && (rule.Err == nil || times != 1) && !testscale.Proof() {
						continue // all losses with one code, and each code once
					}
					t.Run(fmt.Sprintf("%s/%s/%s/%d", op, code, name, times), func(t *testing.T) {
						inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
							if rule.Again > 0 && op == "lease grant" {
								rule.Err = nil // nothing applies one request for a lease twice and loses both answers
							}
							rule.Op, rule.Times = op, times
							r.Inject(rule)
							began := time.Now()
							ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
							defer cancel()
							s, err := Grant(ctx, r.host, lease.Options{TTL: 300 * time.Second})
							assert.LessOrEqual(t, time.Since(began), 20*time.Second+100*time.Millisecond)
							r.LiftAll()
							want := 0
							if err == nil {
								require.NoError(t, s.Err())
								want = 1
							} else {
								require.Nil(t, s)
							}
							sleep(25 * time.Second)
							require.Len(t, r.Leases(), want, "no lease but the session's: %v", err)
							require.Len(t, r.Keys("ns//pawl/"), want)
							if err == nil {
								require.NoError(t, s.Close(context.Background()))
							}
							assert.Empty(t, r.Leases())
							synctest.Wait() // the job that reported to Close has returned
							assert.Empty(t, r.host.Cleanup.Close(0), "nothing goes on in the background")
						})
					})
				}
			}
		}
	}
}

// Every call returns within its context's end plus 100 ms, wherever it waits.
func TestAGrantReturnsWhenItsContextEndsAtEachAwaitPoint(t *testing.T) {
	for _, op := range []string{"lease grant", "put session key"} {
		for name, rule := range lossesOf(codes.Unavailable) {
			if rule.Again > 0 {
				continue // nothing applies a request again after its revocation
			}
			for _, wait := range []time.Duration{0, 1, 50 * time.Millisecond, 700 * time.Millisecond, 4 * time.Second} {
				inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
					rule.Op = op
					r.Inject(rule)
					ctx, cancel := context.WithTimeout(context.Background(), wait)
					defer cancel()
					began := time.Now()
					s, err := Grant(ctx, r.host, lease.Options{TTL: 300 * time.Second})
					assert.LessOrEqual(t, time.Since(began), wait+100*time.Millisecond, "%s %s %v", op, name, wait)
					if s != nil {
						require.NoError(t, err)
						require.NoError(t, s.Close(context.Background()))
					} else if time.Since(began) >= wait {
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
					r.LiftAll()
					sleep(25 * time.Second)
					assert.Empty(t, r.Leases())
				})
			}
		}
	}
}

func TestAGrantWithoutADeadlineReturnsFromABlackHole(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		r.BlackHole()
		began := time.Now()
		_, err := Grant(context.Background(), r.host, lease.Options{})
		require.Error(t, err)
		assert.LessOrEqual(t, time.Since(began), 40*time.Second)
		r.Heal()
		sleep(25 * time.Second)
		assert.Empty(t, r.Leases())
	})
}

// A lease ID that is taken is not touched. A new one is chosen.
func TestALeaseIDThatIsTakenIsNotTouched(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		r.Inject(etcdfake.Rule{Method: "LeaseGrant", Lose: true, Err: rpctypes.ErrGRPCLeaseExist, Times: 2})
		s := r.session(lease.Options{})
		require.NoError(t, s.Err())
		sleep(time.Minute)
		assert.Zero(t, r.Counts().Received["LeaseRevoke"])
		r.Inject(etcdfake.Rule{Method: "LeaseGrant", Lose: true, Err: rpctypes.ErrGRPCLeaseExist})
		_, err := Grant(context.Background(), r.host, lease.Options{})
		require.Error(t, err)
		assert.True(t, cluster.IsLeaseExists(err))
	})
}

// An answer that grants another lease than the requested one is refused.
func TestAGrantOfAnotherLeaseIsRefused(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		r.Inject(etcdfake.Rule{Method: "LeaseGrant", Edit: func(_ etcdfake.Request, m etcdapi.Message) {
			m.(*pb.LeaseGrantResponse).ID = 4711
		}})
		_, err := Grant(context.Background(), r.host, lease.Options{TTL: 300 * time.Second})
		require.ErrorContains(t, err, "1267")
		sleep(25 * time.Second)
		assert.Empty(t, r.Leases(), "the one that was asked for is revoked")
	})
}

// A grant that took so long that its window has expired is no session.
func TestAGrantWhoseWindowHasEndedIsAnError(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		r.Inject(etcdfake.Rule{Op: "put session key", HoldAnswer: 2600 * time.Millisecond})
		_, err := Grant(context.Background(), r.host, lease.Options{TTL: 3 * time.Second})
		oneCause(t, err, lease.ErrExpired)
		sleep(time.Second)
		assert.Empty(t, r.Leases())
	})
}

func TestARefusedSessionKeyIsExplained(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		r.Inject(etcdfake.Rule{Op: "put session key", Lose: true, Err: rpctypes.ErrGRPCPermissionDenied})
		_, err := Grant(context.Background(), r.host, lease.Options{})
		require.Error(t, err)
		assert.True(t, cluster.IsPermissionDenied(err))
		assert.ErrorContains(t, err, `readwrite on keys from "ns//pawl/"`)
		synctest.Wait()
		assert.Empty(t, r.Leases())
	})
}

func TestAFullDiskIsNotQueriedThreeTimes(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		r.SetNoSpace(true)
		_, err := Grant(context.Background(), r.host, lease.Options{})
		require.Error(t, err)
		assert.True(t, cluster.IsNoSpace(err))
		assert.Equal(t, 1, r.Counts().Received["LeaseGrant"])
	})
}

// A grant may have been executed although the answer is that the disk is full.
func TestAGrantThatWasExecutedOnAFullDiskIsRevoked(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		r.Inject(etcdfake.Rule{Method: "LeaseGrant", Err: rpctypes.ErrGRPCNoSpace})
		_, err := Grant(context.Background(), r.host, lease.Options{})
		assert.True(t, cluster.IsNoSpace(err), "%v", err)
		sleep(time.Second)
		assert.Empty(t, r.Leases())
	})
}

// If the session key is another's, nothing of it is changed.
func TestASessionKeyThatIsAnothersIsLeftAlone(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		r.Inject(etcdfake.Rule{Op: "put session key", Match: func(q etcdfake.Request) bool {
			key := string(q.Message.(*pb.TxnRequest).Compare[0].Key)
			if r.Get(key) == nil {
				r.Put(key, "another's", 0)
			}
			return false
		}})
		_, err := Grant(context.Background(), r.host, lease.Options{})
		require.ErrorContains(t, err, "another's")
		sleep(time.Second)
		assert.Len(t, r.Keys("ns//pawl/"), 1)
		assert.Empty(t, r.Leases())
	})
}
