package queue

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

const storyFile = "testdata/story.txt"

// The story is the page to read first. The test plays its steps, and compares what follows from
// each with the page. go test ./internal/queue -run TestTheStoryIsTrue -update writes that part
// again.
func TestTheStoryIsTrue(t *testing.T) {
	page, err := os.ReadFile(storyFile)
	require.NoError(t, err)
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		told := (&story{fixture: w, cast: map[string]*actor{}}).play(page)
		if *update {
			require.NoError(t, os.WriteFile(storyFile, told, 0o644))
			return
		}
		assert.Equal(t, string(page), string(told), "-update writes it again")
	})
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
	was    string // its state at the last step
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
	case does == "opens a session":
		s := st.session()
		st.enters(who, s)
		st.golden.mu.Lock()
		st.golden.leases[s.ID()] = who
		st.golden.mu.Unlock()
		return ""
	case step == "the answer to the next request is lost", step == "the next request is lost":
		st.f.Inject(etcdfake.Rule{Method: "Txn", Times: 1, Lose: !strings.Contains(step, "answer"), Err: rpctypes.ErrGRPCTimeout, Match: func(q etcdfake.Request) bool {
			return !st.golden.record(q)
		}})
		return ""
	case strings.HasPrefix(does, "takes over the session of "):
		st.enters(who, st.successor(st.cast[lastWord(step)].s))
	case strings.HasPrefix(does, "resumes the lock of "):
		var err error
		from := st.cast[lastWord(step)].a
		st.cast[who].a, err = Resume(st.Context(), st.cast[who].s, []string{from.Key()}, from.Token(), Limits{}, st.queue())
		require.NoError(st, err)
	case does == "acquires":
		st.limit = 0
		st.cast[who].acquires(st)
	case does == "acquires a slot of two":
		st.limit = 2
		st.cast[who].acquires(st)
	case does == "releases":
		require.NoError(st, st.cast[who].a.Release(st.Context(), errGivenBack))
	case does == "gives up":
		st.cast[who].cancel()
	case strings.HasPrefix(step, "an operator deletes the key of "):
		time.Sleep(2 * session.ArmDelay) // by then the key is watched
		st.f.Delete(st.cast[lastWord(step)].a.Key())
	case strings.HasPrefix(step, "an operator revokes the lease of "):
		st.f.Revoke(st.cast[lastWord(step)].s.ID())
	default:
		require.Fail(st, "nobody knows how to play this", step)
	}
	synctest.Wait()
	if a := st.cast[who]; does == "acquires" && a.a.now().Phase == state.Enqueuing {
		time.Sleep(time.Second / 10) // it pauses before it enqueues again
		synctest.Wait()
	}
	return st.requests() + st.states()
}

// enters adds an actor to the cast.
func (st *story) enters(who string, s *session.Session) {
	st.names, st.cast[who] = append(st.names, who), &actor{s: s}
}

func lastWord(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }

// acquires does what Acquire does, and lets the story see the acquisition meanwhile.
func (who *actor) acquires(st *story) {
	ctx, cancel := context.WithCancel(st.Context())
	st.Cleanup(cancel)
	r := Request{Value: keys.NewLabel(keys.Identity{}).Lock(time.Time{}), Handoffs: true}
	a := newAcquisition(ctx, who.s, st.queues())
	a.state = state.Begin(state.Options{Handoffs: r.Handoffs && st.limit == 0, Limit: st.limit})
	who.a, who.cancel = a, cancel
	go func() {
		if err := a.acquire(ctx, r); err != nil {
			a.apply(state.GaveUp{}, nil)
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
	queue := st.keys()
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
		if is := st.stateOf(who.a); is != who.was {
			all += fmt.Sprintf("\t%s: %s\n", name, is)
			who.was = is
		}
	}
	return all
}

// The words of the page for what the state says.
var (
	phases = map[state.Phase]string{
		state.Enqueuing: "Enqueuing", state.Settling: "Settling", state.Waiting: "Waiting", state.Querying: "Querying", state.Owner: "Owner",
		state.Held: "Held", state.Releasing: "Releasing", state.Undoing: "Undoing", state.Done: "Done",
	}
	evidence = map[state.Evidence]string{state.ByEnqueue: "by its enqueue", state.ByAnswer: "by a query", state.ByHandoff: "by a handoff", state.ByTake: "by its take", state.ByResuming: "by resuming"}
	ends     = map[state.End]string{
		state.SessionEnded: "its session has ended", state.KeyDeleted: "its key was deleted", state.GivenUp: "given up", state.GivenBack: "released",
	}
)

func (st *story) stateOf(a *Acquisition) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	is := phases[a.state.Phase]
	switch before := a.state.Predecessor; {
	case a.state.End != state.Alive:
		is += ": " + ends[a.state.End]
	case a.state.Phase == state.Waiting:
		is += " for " + st.golden.stable([]byte(before.Name))
	case a.state.Phase == state.Held:
		is += fmt.Sprintf(" %s, token %d", evidence[a.state.Evidence], a.state.Own.Create)
	}
	return is
}
