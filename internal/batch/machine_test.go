package batch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/txn"
)

var t0 = time.Unix(1_700_000_000, 0)

// enqueue puts a key in the queue.
func enqueue(queue string) *Write {
	return &Write{Op: "enqueue", Kind: Ordered, Queue: queue, Txn: &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(queue+"7-1", 0)},
		Success: []*pb.RequestOp{txn.Put(queue+"7-1", []byte("v"), 7), txn.LastUnder(queue, 2, 0)},
	}}
}

// handoff deletes a key of the queue and puts another.
func handoff(queue string) *Write {
	return &Write{Op: "release", Kind: Ordered, Queue: queue, Txn: &pb.TxnRequest{
		Success: []*pb.RequestOp{txn.DeletePrevious(queue + "7-1"), txn.PutKeepingLease(queue+"8-1", nil)},
	}}
}

// release deletes a key of the queue.
func release(queue string) *Write {
	return &Write{Op: "release", Kind: Plain, Queue: queue, Txn: &pb.TxnRequest{
		Success: []*pb.RequestOp{txn.DeletePrevious(queue + "7-1")},
	}}
}

// settle puts a cancel key.
func settle(queue string) *Write {
	return &Write{Op: "settle", Kind: Plain, Queue: queue, Repeat: cluster.Always, Txn: &pb.TxnRequest{
		Success: []*pb.RequestOp{txn.Put("//pawl/7/1", nil, 7), txn.Stat(queue + "7-1")},
	}}
}

// busy is a machine with as many requests in flight as may be, with these tickets.
func busy(t *testing.T) (m machine, tickets []int) {
	m = newMachine()
	for i := range leastInflight {
		p, ticket, fx := m.offer(enqueue(fmt.Sprint("busy", i, "/")), true, false, t0)
		require.Nil(t, p)
		require.Empty(t, fx)
		m.inflight.began(ticket, nil, t0)
		tickets = append(tickets, ticket)
	}
	return m, tickets
}

// waits offers w, and asserts that it waits.
func (m *machine) waits(t *testing.T, w *Write) *part {
	t.Helper()
	p, _, fx := m.offer(w, true, false, t0)
	require.NotNil(t, p, "it went alone")
	require.Empty(t, fx.send)
	return p
}

// goes offers w, and asserts that it is sent alone, at once.
func (m *machine) goes(t *testing.T, w *Write, why string) {
	t.Helper()
	p, _, fx := m.offer(w, true, false, t0)
	require.Nil(t, p, why)
	require.Empty(t, fx.send, why)
}

// rule: G4
func TestBelowTheLimitAWriteGoesAtOnceAndAloneAndTheNextGather(t *testing.T) {
	m, tickets := busy(t)
	a, b := m.waits(t, enqueue("a/")), m.waits(t, release("b/"))
	m.inflight.answered(tickets[0], t0.Add(time.Microsecond))
	assert.Equal(t, []*part{a, b}, m.finished(tickets[0], t0.Add(time.Microsecond)).send)
	m.waits(t, enqueue("c/"))
	assert.Len(t, m.finished(tickets[1], t0.Add(time.Hour)).send, 1, "one that failed before it was answered makes room too")
}

// If no writes share requests, the content of a write is not even counted.
func TestWithRequestsOfNoPartsAWriteGoesWithoutALookAtIt(t *testing.T) {
	m, _ := busy(t)
	m.limits.parts = 0
	m.goes(t, &Write{Kind: Ordered, Queue: "a/"}, "it has no transaction to look at")
}

// rule: G4
func TestARequestThatPausesDoesNotCount(t *testing.T) {
	m, tickets := busy(t)
	m.waits(t, enqueue("a/"))
	assert.Len(t, m.paused(tickets[0], t0).send, 1, "between two tries")
	m.inflight.began(tickets[0], nil, t0)
	assert.Equal(t, 3, m.inflight.busy, "the next try does not wait")
	m.waits(t, enqueue("b/"))
	assert.Empty(t, m.finished(tickets[0], t0).send, "as many as may be are still in flight")
}

// Rule G4: a shared request counts until its writes have their answers, so that what their callers write
// next shares a request too.
func TestASharedRequestCountsUntilItsWritesHaveTheirAnswers(t *testing.T) {
	m, tickets := busy(t)
	m.waits(t, enqueue("a/"))
	m.waits(t, enqueue("b/"))
	shared := m.finished(tickets[0], t0)
	require.Len(t, shared.send, 2)
	m.inflight.began(shared.ticket, nil, t0)
	m.inflight.answered(shared.ticket, t0)
	c, d := m.waits(t, enqueue("c/")), m.waits(t, enqueue("d/"))
	assert.Equal(t, []*part{c, d}, m.finished(shared.ticket, t0).send)

	m, tickets = busy(t)
	m.waits(t, enqueue("a/"))
	m.waits(t, enqueue("b/"))
	shared = m.finished(tickets[0], t0)
	m.inflight.began(shared.ticket, nil, t0)
	e := m.waits(t, enqueue("e/"))
	assert.Equal(t, []*part{e}, m.paused(shared.ticket, t0).send, "between two tries it does not count")
}

// rule: G4
func TestTheLimitFollowsTheLeastRecentRoundTrip(t *testing.T) {
	for trip, want := range map[time.Duration]int{time.Microsecond: 2, 900 * time.Microsecond: 3, 4 * time.Millisecond: 13, 10 * time.Millisecond: 16, time.Second: 16} {
		m := newMachine()
		answer := func(at time.Time, trip time.Duration) {
			_, ticket, _ := m.offer(enqueue("a/"), true, true, at)
			m.inflight.began(ticket, nil, at)
			m.inflight.answered(ticket, at.Add(trip))
			m.finished(ticket, at.Add(trip))
		}
		for i := range 5 {
			answer(t0, trip+time.Duration(i)*time.Second/2)
		}
		assert.Equal(t, want, m.inflight.most(), trip)
		answer(t0.Add(recent), trip+3*time.Millisecond)
		assert.Equal(t, want, m.inflight.most(), "a slow answer")
		answer(t0.Add(3*recent), 3*time.Millisecond)
		answer(t0.Add(4*recent), 3*time.Millisecond)
		assert.Equal(t, 10, m.inflight.most(), "what was long ago is forgotten")
	}
}

// rule: G4
func TestATryWithoutAnAnswerDoesNotCountAndItsMemberIsPassedOver(t *testing.T) {
	m, tickets := busy(t)
	assert.Zero(t, m.wake(), "nobody waits")
	silent := new(cluster.Member)
	m.inflight.began(tickets[0], silent, t0)
	m.inflight.began(tickets[1], new(cluster.Member), t0.Add(time.Millisecond))
	a := m.waits(t, enqueue("a/"))
	require.Equal(t, t0.Add(minPatience), m.wake())
	assert.Empty(t, m.tick(t0.Add(minPatience-1)))
	fx := m.tick(t0.Add(minPatience))
	assert.Equal(t, []*part{a}, fx.send)
	assert.Same(t, silent, fx.avoid)
	assert.Zero(t, m.wake())
	m.inflight.answered(tickets[0], t0.Add(time.Second))
	m.finished(tickets[0], t0.Add(time.Second))
	assert.Nil(t, m.inflight.silent(), "it has answered")
	assert.Equal(t, 2, m.inflight.busy)

	m = newMachine()
	m.inflight.trip.add(time.Second, t0)
	assert.Equal(t, 3*time.Second, m.inflight.patience())
}

// Rule G4: a request that has waited long for a token was sent to no member, and hides no member that
// is silent.
// rule: G4
func TestARequestThatWasNotSentHidesNoSilentMember(t *testing.T) {
	var l inflight
	l.take(t0)
	silent := new(cluster.Member)
	l.began(l.take(t0), silent, t0)
	l.expire(t0.Add(minPatience))
	require.Equal(t, 2, l.overdue)
	assert.Same(t, silent, l.silent())
}

// Rule G2: which two writes may share a request, in both orders.
// rule: G2
func TestAnOrderedWriteSharesARequestWithNothingElseOfItsQueues(t *testing.T) {
	kinds := map[string]func(string) *Write{"enqueue": enqueue, "handoff": handoff, "release": release, "settle": settle}
	for first, make1 := range kinds {
		for second, make2 := range kinds {
			name := first + ", " + second
			plain := make1("a/").Kind == Plain && make2("a/").Kind == Plain
			m, _ := busy(t)
			m.waits(t, make1("a/"))
			if plain {
				m.waits(t, make2("a/"))
			} else {
				m.goes(t, make2("a/"), name)
			}
			m.waits(t, make2("ab/"))

			m, _ = busy(t)
			w := make1("b/")
			w.More = []string{"c/", "a/"}
			m.waits(t, w)
			if v := make2("d/"); !plain {
				v.More = []string{"a/"}
				m.goes(t, v, name+", of several queues")
			}
			parts := []*part{newPart(*make1("a/"), 1, false), newPart(*make2("a/"), 1, false)}
			_, err := request(parts)
			switch {
			case plain || first == "settle" || second == "settle": // whose key is not in the queue
				assert.NoError(t, err, name)
			default:
				assert.Error(t, err, name)
			}
		}
	}
}

// Rule G2: the content of the transactions decides, not what their Kind claims.
// rule: G2
func TestTheAssertionLooksAtTheKeysThemselves(t *testing.T) {
	lie := func(w *Write, queue string) *part {
		w.Kind, w.Queue = Plain, queue
		return newPart(*w, 1, false)
	}
	_, err := request([]*part{lie(enqueue("a/"), "x/"), lie(enqueue("b/"), "y/"), lie(enqueue("a/"), "z/")})
	assert.ErrorContains(t, err, `"a/"`)
	_, err = request([]*part{lie(release("a/"), "x/"), lie(enqueue("a/"), "y/")})
	assert.ErrorContains(t, err, "release and enqueue")
	w := release("b/")
	w.Txn.Failure = []*pb.RequestOp{txn.Put("a/1-1", nil, 0)}
	_, err = request([]*part{lie(w, "x/"), lie(release("a/"), "y/")})
	assert.Error(t, err, "either branch")
	got, err := request([]*part{lie(handoff("a/"), "x/"), lie(enqueue("b/"), "y/"), lie(settle("a/"), "z/"), lie(release("c/"), "c/"), lie(release("c/"), "c/")})
	require.NoError(t, err)
	assert.Len(t, got.Success, 5)
	assert.True(t, got.Success[1].GetRequestTxn().Success[0].GetRequestPut() != nil)
}

// Rule G1.
// rule: G1
func TestWhatIsNotSaidToTravelTogetherGoesAlone(t *testing.T) {
	m, _ := busy(t)
	w := release("a/")
	w.Kind = Alone
	m.goes(t, w, "kind")
	p, _, _ := m.offer(release("a/"), true, true, t0)
	assert.Nil(t, p, "asked for")
	p, _, _ = m.offer(release("a/"), false, false, t0)
	assert.Nil(t, p, "the members do not take it")
}

// Rule G5.
// rule: G5
func TestARequestIsNeverLargerThanItsBounds(t *testing.T) {
	m, _ := busy(t)
	var fx effects
	for i := range 32 {
		_, _, fx = m.offer(enqueue(fmt.Sprint("q", i, "/")), true, false, t0)
		require.Equal(t, i == 31, len(fx.send) > 0)
	}
	require.Len(t, fx.send, 32)

	large := func(queue string, size int) *Write {
		w := enqueue(queue)
		w.Txn.Success[0].GetRequestPut().Value = []byte(strings.Repeat("x", size))
		return w
	}
	m, _ = busy(t)
	m.waits(t, large("a/", 100<<10))
	p, _, fx := m.offer(large("b/", 100<<10), true, false, t0)
	assert.NotNil(t, p)
	assert.Len(t, fx.send, 1, "what waits makes room at once")
	m.goes(t, large("c/", 200<<10), "too large for any")

	m, _ = busy(t)
	many := release("a/")
	for range 100 {
		many.Txn.Success = append(many.Txn.Success, txn.Delete("a/1-1"))
	}
	m.waits(t, many)
	for i := range 128 - 101 - 1 {
		m.waits(t, release(fmt.Sprint("q", i, "/")))
	}
	_, _, fx = m.offer(release("b/"), true, false, t0)
	assert.Len(t, fx.send, 128-101, "each level takes its own from max-txn-ops")
}

// Rule G5.
// rule: G5
func TestAServerThatWantsLessIsBelieved(t *testing.T) {
	m, _ := busy(t)
	var parts []*part
	for i := range mostParts {
		parts = append(parts, newPart(*enqueue(fmt.Sprint("q", i, "/")), 1000, true))
	}
	m.refusedBatch(parts, rpctypes.ErrGRPCTooManyOps)
	assert.Equal(t, 17, m.limits.ops)
	m.refusedBatch(parts, rpctypes.ErrGRPCRequestTooLarge)
	assert.Equal(t, 16_000, m.limits.bytes)
	for range 10 {
		m.refusedBatch(parts[:2], rpctypes.ErrGRPCTooManyOps)
	}
	m.goes(t, enqueue("a/"), "nothing is so small")
}

// Rule G7, G8: a write that is taken out leaves room for others, and nothing of it remains.
func TestWhatIsTakenOutIsForgotten(t *testing.T) {
	m, tickets := busy(t)
	a, b := m.waits(t, enqueue("a/")), m.waits(t, release("b/"))
	require.True(t, m.gather.remove(a))
	require.False(t, m.gather.remove(a))
	c := m.waits(t, handoff("a/"))
	fx := m.finished(tickets[0], t0)
	assert.Equal(t, []*part{b, c}, fx.send)
	assert.False(t, m.gather.remove(b), "it has gone")
	assert.Zero(t, m.gather.bytes)
}

// Rule G9.
// rule: G9
func TestWhatWasRefusedGoesAloneForAWhile(t *testing.T) {
	m, _ := busy(t)
	m.refused(enqueue("forbidden/"), rpctypes.ErrGRPCPermissionDenied, t0)
	m.goes(t, enqueue("forbidden/"), "the queue")
	m.goes(t, release("forbidden/"), "another write of the queue")
	both := release("a/")
	both.More = []string{"forbidden/"}
	m.goes(t, both, "among others")
	m.waits(t, enqueue("a/"))
	m.refused(enqueue("b/"), rpctypes.ErrGRPCLeaseNotFound, t0)
	m.goes(t, enqueue("b/"), "a lease that is gone")
	p, _, _ := m.offer(enqueue("forbidden/"), true, false, t0.Add(quarantineFor))
	assert.NotNil(t, p, "for a while")
	m.refused(both, rpctypes.ErrGRPCPermissionDenied, t0.Add(2*quarantineFor))
	assert.Len(t, m.quarantine, 2, "all of its queues, and what has ended is forgotten")
}

// Rule G10.
// rule: G10
func TestWithoutSpaceWhatPutsAndWhatDeletesTravelApart(t *testing.T) {
	for name, refuse := range map[string]func(m *machine){
		"alone":    func(m *machine) { m.refused(enqueue("x/"), rpctypes.ErrGRPCNoSpace, t0) },
		"together": func(m *machine) { m.refusedBatch(nil, rpctypes.ErrGRPCNoSpace) },
	} {
		m, _ := busy(t)
		refuse(&m)
		m.waits(t, release("a/"))
		m.goes(t, enqueue("b/"), name)
		m.goes(t, settle("b/"), name)
		m.waits(t, release("c/"))
		m.noSpace = false
		m.waits(t, enqueue("b/"))
	}
}

// Whatever happens, each write is sent once or is taken out, no request exceeds what the rules allow,
// and no write waits while another request may be in flight.
// rule: G2
func FuzzEveryWriteGoesOnceAndNoRequestBreaksARule(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Add(uint64(98)) // a longer round trip allows more requests while a shared one is unfinished
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		m, now := newMachine(), t0
		under, waiting := map[int]bool{}, map[*part]bool{}
		took := func(fx effects) {
			if len(fx.send) == 0 {
				return
			}
			require.False(t, under[fx.ticket], "a ticket is one request's")
			under[fx.ticket] = true
			checkRequest(t, fx.send, m.limits)
			for _, p := range fx.send {
				require.True(t, waiting[p])
				delete(waiting, p)
			}
		}
		for range 500 {
			now = now.Add(time.Duration(r.IntN(50)) * time.Millisecond)
			switch n := r.IntN(10); {
			case n < 5:
				w := []func(string) *Write{enqueue, handoff, release, settle}[r.IntN(4)](fmt.Sprint(r.IntN(12), "/"))
				if r.IntN(4) == 0 {
					w.More = []string{fmt.Sprint(r.IntN(12), "/")}
				}
				p, ticket, fx := m.offer(w, r.IntN(20) > 0, r.IntN(20) == 0, now)
				if p != nil {
					waiting[p] = true
				} else {
					require.False(t, under[ticket])
					under[ticket] = true
				}
				took(fx)
			case n < 7:
				for ticket := range under {
					switch r.IntN(4) {
					case 0:
						m.inflight.began(ticket, nil, now)
					case 1:
						took(m.paused(ticket, now))
					default:
						delete(under, ticket)
						took(m.finished(ticket, now))
					}
					break
				}
			case n < 8:
				for p := range waiting {
					require.True(t, m.gather.remove(p))
					delete(waiting, p)
					break
				}
			case n < 9:
				took(m.tick(now))
			default:
				m.refused(enqueue(fmt.Sprint(r.IntN(12), "/")), []error{rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCPermissionDenied}[r.IntN(2)], now)
			}
			require.Len(t, m.gather.parts, len(waiting))
			require.False(t, len(waiting) > 0 && m.inflight.open(), "a write waits, and another request may be in flight")
			require.Equal(t, len(waiting) > 0, !m.wake().IsZero())
		}
	})
}

// checkRequest states the rules a second time.
func checkRequest(t *testing.T, parts []*part, l limits) {
	t.Helper()
	bytes := 0
	for i, p := range parts {
		bytes += p.size
		require.LessOrEqual(t, len(parts)+p.ops(), l.ops)
		for _, q := range append([]string{p.Queue}, p.More...) {
			for j, other := range parts {
				if i == j || p.Kind == Plain && other.Kind == Plain {
					continue
				}
				require.NotContains(t, append([]string{other.Queue}, other.More...), q)
			}
		}
	}
	require.LessOrEqual(t, len(parts), l.parts)
	require.LessOrEqual(t, bytes, l.bytes)
}

// Rule G4: the writes that are sent alone may always be more than the limit. What gathers is sent
// in turn nevertheless.
func TestWhatGathersIsNotHeldUpByThoseThatGoAlone(t *testing.T) {
	m, tickets := busy(t)
	_, over, _ := m.offer(enqueue("alone/"), true, true, t0)
	m.inflight.began(over, nil, t0)
	tickets = append(tickets, over)
	a := m.waits(t, release("a/"))
	for i := range 10 {
		now := t0.Add(time.Duration(i) * time.Millisecond)
		first := tickets[0]
		fx := m.finished(first, now)
		if len(fx.send) > 0 {
			assert.Equal(t, []*part{a}, fx.send)
			assert.Less(t, i, len(tickets), "no more answers are waited for than were under way")
			return
		}
		_, next, _ := m.offer(enqueue("alone/"), true, true, now)
		m.inflight.began(next, nil, now)
		tickets = append(tickets[1:], next)
	}
	t.Fatal("it waits for as long as others go alone")
}
