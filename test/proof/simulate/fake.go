package simulate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// fake is the cluster in memory.
type fake struct {
	c *etcdfake.Cluster
	w *scenario
}

// OnFake starts the in-memory cluster for a scenario.
func OnFake(_ *testing.T, w *scenario) server {
	c := etcdfake.New(etcdfake.Options{Members: w.plan.Members})
	c.OnChange(func(ch etcdfake.Change) {
		if ch.Deleted {
			w.truth.gone(ch.Key, ch.Revision, ch.Why)
		} else {
			w.truth.put(ch.Key, ch.CreateRevision, ch.Version == 1, ch.Why == etcdfake.ByOperator)
		}
	})
	f := &fake{c, w}
	f.writeBetween()
	return f
}

// unrelated is a key that has nothing to do with the scenario.
const unrelated = "unrelated"

// writeBetween writes between every two requests of a busy scenario.
func (f *fake) writeBetween() {
	if f.w.plan.Busy {
		f.c.Inject(etcdfake.Rule{Match: func(etcdfake.Request) bool { f.c.Put(unrelated, "", 0); return false }})
	}
}

func (f *fake) endpoints() []string           { return f.c.Endpoints() }
func (f *fake) options(int) []grpc.DialOption { return append(lean(), f.c.DialOption()) }
func (f *fake) close()                        { f.c.Close() }

func (f *fake) calm() {
	f.c.LiftAll()
	f.writeBetween()
	f.c.Heal()
	f.c.SetNoSpace(false)
	f.c.SetClockRate(1)
	for _, m := range f.c.Members() {
		m.SetDelay(nil, nil)
	}
}

func (f *fake) left() (left []string) {
	for _, key := range f.c.Keys("") {
		if key != "data" && key != unrelated && !isRecord(key) {
			left = append(left, key)
		}
	}
	for _, l := range f.c.Leases() {
		left = append(left, "lease of "+strings.Join(l.Keys, " "))
	}
	return left
}

// fakeKinds are the faults that the in-memory cluster knows.
var fakeKinds = []string{
	"cut", "black hole", "deafen", "mute", "isolate", "depose", "stop", "reset", "freeze",
	"all cut", "all black hole", "change leader", "delay", "end streams",
	"lose requests", "lose answers", "lose an answer", "late", "again", "error", "error after", "hold answers",
	"no space", "compact", "clock", "swallow deletes", "twice", "silence", "replay",
	"operator deletes", "operator overwrites", "operator revokes", "tokens",
}

// These are errors that a server, or something on the way, answers with.
var errs = []error{
	status.Error(codes.Unavailable, "etcdserver: leader changed"),
	status.Error(codes.Unavailable, "etcdserver: request timed out"),
	status.Error(codes.Unknown, "something else"),
	status.Error(codes.Internal, "stream terminated"),
	status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
	status.Error(codes.Canceled, "context canceled"),
	// The following are errors that etcd returns only for requests that it has not accepted.
	status.Error(codes.Unavailable, "etcdserver: no leader"),
	status.Error(codes.ResourceExhausted, "etcdserver: too many requests"),
}

// ambiguous is how many of errs may follow a request that was applied.
const ambiguous = 6

var methods = []string{"", "Txn", "Txn", "LeaseKeepAlive", "Range", "LeaseGrant", "LeaseRevoke", "Watch"}

func (f *fake) strike(w *scenario, s Strike) (heal func()) {
	m := f.c.Member(s.Member)
	inject := func(r etcdfake.Rule) func() {
		r.Method = methods[s.N%len(methods)]
		if s.N%3 == 0 {
			r.Member = m
		}
		if r.Times == 0 && s.N%5 != 0 {
			r.Times = 1 + s.N%4
		}
		return f.c.Inject(r).Lift
	}
	delay := time.Duration(s.N%2000) * time.Millisecond
	refusal, err := errs[s.N%len(errs)], errs[s.N%ambiguous]
	edit := m.EditWatches
	switch s.Kind {
	case "cut":
		m.Cut()
	case "black hole":
		m.BlackHole()
	case "deafen":
		m.Deafen()
	case "mute":
		m.Mute()
	case "isolate":
		m.Isolate()
	case "depose":
		m.Depose()
	case "stop":
		m.Stop()
	case "freeze":
		m.Freeze()
	case "reset":
		m.Reset()
		return func() {}
	case "all cut":
		f.c.Cut()
		return f.c.Heal
	case "all black hole":
		f.c.BlackHole()
		return f.c.Heal
	case "change leader":
		f.c.ChangeLeader(s.Member)
		return func() {}
	case "delay":
		m.SetDelay(etcdfake.Fixed(delay/8), etcdfake.Fixed(delay/8))
		return func() { m.SetDelay(nil, nil) }
	case "end streams":
		m.EndStreams("", err)
		return func() {}
	case "lose requests":
		return inject(etcdfake.Rule{Lose: true, Hang: true})
	case "lose answers":
		return inject(etcdfake.Rule{Hang: true})
	case "lose an answer":
		return inject(etcdfake.Rule{Err: err, Times: 1})
	case "late":
		return inject(etcdfake.Rule{Late: delay, Err: err})
	case "again":
		// No etcd applies a request again that it has answered.
		return inject(etcdfake.Rule{Again: delay, Err: err})
	case "error":
		return inject(etcdfake.Rule{Lose: true, Err: refusal})
	case "error after":
		return inject(etcdfake.Rule{Err: err})
	case "hold answers":
		return inject(etcdfake.Rule{HoldAnswer: 2 * delay})
	case "no space":
		f.c.SetNoSpace(true)
		return func() { f.c.SetNoSpace(false) }
	case "compact":
		f.c.Compact(f.c.Revision())
		return func() {}
	case "clock": // as far off as the margin covers
		f.c.SetClockRate(0.9 + 0.2*float64(s.N%100)/100)
		return func() { f.c.SetClockRate(1) }
	case "swallow deletes":
		return edit(etcdfake.SwallowDeletes(""))
	case "twice":
		return edit(etcdfake.Twice)
	case "silence":
		return edit(etcdfake.Silence)
	case "replay":
		return edit(etcdfake.Replay())
	case "tokens":
		f.c.ForgetTokens()
		return func() {}
	default:
		f.operate(w, s)
		return func() {}
	}
	return m.Heal
}

// operate does what an operator does to somebody's key.
func (f *fake) operate(w *scenario, s Strike) {
	keys := append(w.truth.at(), f.c.Keys(teamKeys().Prefix)...) // the workers' other keys, too
	if len(keys) == 0 {
		return
	}
	key := keys[s.N%len(keys)]
	kv := f.c.Get(key)
	if kv == nil {
		return
	}
	switch s.Kind {
	case "operator deletes":
		f.c.Delete(key)
	case "operator overwrites":
		f.c.Put(key, "somebody else's", kv.Lease)
	case "operator revokes":
		if i := slices.IndexFunc(f.c.Leases(), func(l etcdfake.Lease) bool { return l.ID == kv.Lease }); i >= 0 {
			f.c.Revoke(kv.Lease)
		}
	}
}
