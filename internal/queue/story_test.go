package queue

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// The story is the page to read first, and those in the folder stories are about one thing each. The
// test plays their steps, and compares what follows from each with the page. go test ./internal/queue
// -run TestTheStoriesAreTrue -update writes that part again.
func TestTheStoriesAreTrue(t *testing.T) {
	pages, err := filepath.Glob("testdata/stories/*.txt")
	require.NoError(t, err)
	for _, file := range append(pages, "testdata/story.txt") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			page, err := os.ReadFile(file)
			require.NoError(t, err)
			inBubble(t, etcdfake.Options{}, func(w *fixture) {
				told := (&story{fixture: w, cast: map[string]*actor{}}).play(page)
				if *update {
					require.NoError(t, os.WriteFile(file, told, 0o644))
					return
				}
				assert.Equal(t, string(page), string(told), "-update writes it again")
			})
		})
	}
}

// A story is played by actors. A golden records what they send.
type story struct {
	*fixture
	golden golden
	cast   map[string]*actor
	names  []string // the actors' names, in the order in which they came
}

// An actor is a process with a session and its last acquisition.
type actor struct {
	s      *session.Session
	a      *Acquisition
	cancel context.CancelFunc
	wanted <-chan struct{} // nil until it asks
	was    string          // its state at the last step
}

// play returns page with what follows from each of its steps now.
func (st *story) play(page []byte) []byte {
	st.golden.leases = map[int64]string{}
	st.f.Inject(etcdfake.Rule{Match: st.golden.record})
	var told bytes.Buffer
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "\t") {
			continue // what followed before
		}
		told.WriteString(line)
		if step, ok := strings.CutPrefix(line, "> "); ok {
			told.WriteString(st.follows(strings.TrimSuffix(step, "\n")))
		}
	}
	return told.Bytes()
}

// follows plays a step, and describes what follows from it.
func (st *story) follows(step string) string {
	st.golden.mu.Lock()
	st.golden.shapes, st.golden.texts = map[string]bool{}, nil
	st.golden.mu.Unlock()
	who, does, _ := strings.Cut(step, " ")
	switch {
	case strings.HasPrefix(does, "opens a session"):
		st.opens(who, does)
		return ""
	case strings.HasSuffix(step, "request is lost"):
		st.loses(!strings.Contains(step, "answer"), 1)
		return ""
	case step == "the disk is full", step == "the disk has space again":
		st.f.SetNoSpace(step == "the disk is full")
		return ""
	case does == "pass":
		d, err := time.ParseDuration(who)
		require.NoError(st, err)
		time.Sleep(d)
		synctest.Wait()
		st.golden.mu.Lock()
		st.golden.texts = slices.DeleteFunc(st.golden.texts, func(t string) bool { return strings.HasPrefix(t, "confirm session") }) // renewals
		st.golden.mu.Unlock()
	case who == "an":
		st.operator(step)
	default:
		st.cast[who].does(st, who, does)
	}
	synctest.Wait()
	if a := st.cast[who]; a != nil && a.a != nil && strings.HasPrefix(does, "acquires") && a.a.now().Phase == state.Enqueuing {
		time.Sleep(time.Second / 10) // it pauses before it enqueues again
		synctest.Wait()
	}
	return st.requests() + st.states()
}

// opens gives an actor a session.
func (st *story) opens(who, does string) {
	var cfg pawl.Config
	if _, delay, ok := strings.Cut(does, " with a lock-delay of "); ok {
		d, err := time.ParseDuration(delay)
		require.NoError(st, err)
		cfg.Session.LockDelay = d
	}
	s := st.sessionWith(cfg)
	st.enters(who, s)
	st.golden.mu.Lock()
	st.golden.leases[s.ID()] = who
	st.golden.mu.Unlock()
}

// loses loses the next transactions, or their answers.
func (st *story) loses(request bool, times int) {
	st.f.Inject(etcdfake.Rule{Method: "Txn", Times: times, Lose: request, Err: rpctypes.ErrGRPCTimeout, Match: func(q etcdfake.Request) bool {
		return !st.golden.record(q)
	}})
}

// operator plays what somebody does at etcd.
func (st *story) operator(step string) {
	victim := st.cast[lastWord(step)]
	time.Sleep(2 * session.ArmDelay) // by then the key is watched
	switch {
	case strings.HasPrefix(step, "an operator deletes the key of "):
		st.f.Delete(victim.a.Key())
	case strings.HasPrefix(step, "an operator deletes the second key of "):
		st.f.Delete(victim.a.AllKeys()[1])
	case strings.HasPrefix(step, "an operator writes to the key of "):
		st.f.Put(victim.a.Key(), "x", 0)
	case strings.HasPrefix(step, "an operator revokes the lease of "):
		st.f.Revoke(victim.s.ID())
	default:
		require.Fail(st, "nobody knows how to play this", step)
	}
}

// does plays what an actor does.
func (who *actor) does(st *story, name, does string) {
	mode, _ := strings.CutPrefix(does, "acquires")
	switch {
	case strings.HasPrefix(does, "takes over the session of "):
		st.enters(name, st.successor(st.cast[lastWord(does)].s))
	case strings.HasPrefix(does, "resumes the lock of "):
		from := st.cast[lastWord(does)].a
		var err error
		who.a, err = Resume(st.Context(), who.s, from.AllKeys(), from.Token(), Limits{}, st.queues()...)
		require.NoError(st, err)
	case strings.HasPrefix(does, "campaigns as "):
		st.limit, st.shared, st.set = 0, false, nil
		who.acquires(st, Request{Value: []byte(lastWord(does))})
	case strings.HasPrefix(does, "proclaims "):
		_ = who.a.Rewrite(st.Context(), []byte(lastWord(does)))
	case mode != does:
		limits := map[string]int{" a slot of two": 2, " a slot of one": 1}
		sets := map[string][]string{" three names": {"one", "two"}}
		st.limit, st.shared, st.set = limits[mode], mode == " shared", sets[mode]
		r := Request{Value: keys.NewLabel(keys.Identity{}).Lock(time.Time{}), Handoffs: st.set == nil && !st.shared}
		if st.set != nil {
			r = labelled(Request{}, len(st.queues()))
		}
		who.acquires(st, r)
	case does == "asks whether it is wanted":
		who.wanted = who.a.Wanted()
	case does == "releases":
		_ = who.a.Release(st.Context(), errGivenBack)
	case does == "gives up":
		who.cancel()
	case does == "closes its session":
		require.NoError(st, who.s.Close(st.Context()))
	default:
		require.Fail(st, "nobody knows how to play this", does)
	}
}

// enters adds an actor to the cast.
func (st *story) enters(who string, s *session.Session) {
	st.names, st.cast[who] = append(st.names, who), &actor{s: s}
}

func lastWord(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }

// acquires does what Acquire does, and lets the story see the acquisition meanwhile.
func (who *actor) acquires(st *story, r Request) {
	ctx, cancel := context.WithCancel(st.Context())
	st.Cleanup(cancel)
	a := st.fresh(ctx, who.s, state.Options{Handoffs: r.Handoffs && st.limit == 0, Shared: st.shared, Limit: st.limit}, st.queues()...)
	who.a, who.cancel, who.wanted = a, cancel, nil
	go func() {
		if err := a.acquire(ctx, r); err != nil {
			a.apply(state.GaveUp{}, nil)
			a.releaseRest()
		}
	}()
}

// label matches what the keys' values say of their owners.
var label = regexp.MustCompile(`\{\\"pawl\\".*?\}`)

// requests returns the requests that were sent, with short values.
func (st *story) requests() (all string) {
	for text := range strings.Lines(string(st.golden.text())) {
		if text = label.ReplaceAllString(text, "…"); text != "\n" {
			all += "\t" + strings.ReplaceAll(text, "\t", "    ")
		}
	}
	return all
}

// states returns the keys of the queue, and the acquisitions whose states have changed.
func (st *story) states() string {
	all := "\tqueue:"
	queue := slices.DeleteFunc(st.f.Keys(""), func(key string) bool {
		return strings.HasPrefix(key, "//pawl/") && !strings.HasPrefix(key, "//pawl/sem/")
	})
	slices.SortFunc(queue, func(x, y string) int { return cmp.Compare(st.f.Get(x).CreateRevision, st.f.Get(y).CreateRevision) })
	for _, key := range queue {
		all += fmt.Sprintf(" %s@%d", st.golden.stable([]byte(key)), st.f.Get(key).CreateRevision)
	}
	all += "\n"
	for _, name := range st.names {
		who := st.cast[name]
		if who.a == nil {
			continue
		}
		if is := st.stateOf(who); is != who.was {
			all += fmt.Sprintf("\t%s: %s\n", name, is)
			who.was = is
		}
	}
	return all
}

// The words of the page for what the state says.
var (
	phases = map[state.Phase]string{
		state.Enqueuing: "Enqueuing", state.Settling: "Settling", state.Waiting: "Waiting", state.Querying: "Querying",
		state.Full: "Full: first in the turnstile, and no slot is free", state.Taking: "Taking a slot", state.Owner: "Owner",
		state.Held: "Held", state.Releasing: "Releasing", state.Undoing: "Undoing", state.Done: "Done",
	}
	evidence = map[state.Evidence]string{state.ByEnqueue: "by its enqueue", state.ByAnswer: "by a query", state.ByHandoff: "by a handoff", state.ByTake: "by its take", state.ByResuming: "by resuming"}
	ends     = map[state.End]string{
		state.SessionEnded: "its session has ended", state.KeyDeleted: "its key was deleted", state.KeyOverwritten: "its key was overwritten",
		state.GivenUp: "given up", state.GivenBack: "released",
	}
)

func (st *story) stateOf(who *actor) string {
	wanted := false
	select {
	case _, open := <-who.wanted:
		wanted = !open
	default:
	}
	a := who.a.now()
	is := phases[a.Phase]
	if a.End == state.SessionEnded {
		is = phases[state.Done] // the phase says what it had until then
	}
	switch before := a.Predecessor; {
	case a.End != state.Alive:
		is += ": " + ends[a.End]
	case a.Phase == state.Waiting:
		is += " for " + st.golden.stable([]byte(before.Name))
	case a.Phase == state.Held:
		is += fmt.Sprintf(" %s, token %d", evidence[a.Evidence], a.Own.Create)
	}
	if wanted && a.Phase == state.Held {
		is += ", and is wanted"
	}
	return is
}
