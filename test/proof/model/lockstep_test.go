package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/keys"
	production "github.com/pawl-locks/pawl/internal/queue/state"
)

// The state that internal/queue works with and the model walk together: each step of
// the model is told to the production state as the events that the engine would make of
// it, and after each both must say the same, for every client and in every
// interleaving. What the server does is the model's part.

// A pair is the model and, beside each of its clients, the state of that client's
// acquisition, by its number in the table.
type pair struct {
	s       state
	created [maxKeys + 1]uint8 // of all keys that ever were
	twins   [maxClients]int32
}

// lockstep is a walk of both.
type lockstep struct {
	c     Config
	twins []production.Acquisition
	known map[string]int32 // twins by what they are
}

// number is where a stands in the table.
func (l *lockstep) number(a production.Acquisition) int32 {
	as := fmt.Sprintf("%+v", a)
	if n, ok := l.known[as]; ok {
		return n
	}
	n := int32(len(l.twins))
	l.twins, l.known[as] = append(l.twins, a), n
	return n
}

// label is what a value begins with that can be handed off to.
const label = keys.LockMark + `"owner":"a"}`

// name is the queue key of k.
func name(k key) string { return keys.QueueKey{Lease: int64(k), N: 1}.In("n/") }

// seen is k as the production state knows it.
func (p *pair) seen(k key) production.Key {
	if k == 0 {
		return production.Key{}
	}
	return production.Key{Name: name(k), Create: int64(p.created[k])}
}

// successors are h as a handoff carries them.
func (p *pair) successors(h heirs) keys.Successors {
	var all []keys.Successor
	for _, k := range h {
		if k != 0 {
			_, name := keys.Split(name(k))
			all = append(all, keys.Successor{Name: []byte(name), Create: int64(p.created[k]), Value: []byte(label)})
		}
	}
	return keys.NewSuccessors(slices.Values(all))
}

// handoff is k as the handoff g makes it. Of its own revision nothing is known but that
// it is newer.
func (p *pair) handoff(k key, g handoff) production.OwnChanged {
	_, by := keys.Split(name(g.by))
	first, rest, _ := p.successors(heirs{k, g.heirs[0]}).First()
	return production.OwnChanged{
		Create: int64(p.created[k]), Mod: int64(p.created[k]) + 100, OnLease: true,
		Value: first.HandedOff(by, int64(p.created[g.by]), rest),
	}
}

// follow is what becomes of p by the model's step st, or why it is wrong.
func (l *lockstep) follow(p *pair, st step) (next pair, wrong string) {
	next = *p
	next.s = st.to
	for i := range int(st.to.queues[0].n) {
		next.created[st.to.queues[0].line[i]] = st.to.queues[0].created[i]
	}
	if l.networkOnly(st.name) {
		return next, ""
	}
	i := int(st.name[len(st.name)-1] - 'A')
	a := l.twins[p.twins[i]]
	if wrong = l.tell(p, &next, i, &a, st.name); wrong == "" {
		wrong = differs(&next, i, &a)
	}
	if pc := st.to.clients[i].pc; pc == idle || pc == done || pc == dead {
		a = begin() // it has ended, and what it was does not matter
	}
	next.twins[i] = l.number(a)
	return next, wrong
}

// networkOnly reports whether a step is one that no client hears of.
func (l *lockstep) networkOnly(name string) bool {
	for _, w := range []string{"passes its deadline", "loses its lease", "an operator deletes", "an enqueue", "a release"} {
		if strings.HasPrefix(name, w) {
			return true
		}
	}
	return false
}

func begin() production.Acquisition { return production.Begin(production.Options{Handoffs: true}) }

// tell makes of the step which leads from p to next the events of client i's
// acquisition.
func (l *lockstep) tell(p, next *pair, i int, a *production.Acquisition, what string) (wrong string) {
	k := l.c.key(&p.s, i)
	me := &p.s.clients[i]
	at := p.s.queues[0].at(k)
	what = what[:len(what)-2]
	switch what {
	case "sees its session over":
		a.Apply(production.Over{})
	case "sends enqueue":
		if a.Next() != production.Enqueue {
			return "it would not enqueue"
		}
	case "hears of its enqueue":
		if !me.got.ok {
			a.Apply(production.Over{}) // the only reason there is, before it is settled
			return ""
		}
		a.Apply(production.Enqueued{Own: production.Key{Name: name(k), Create: int64(me.token)}, Predecessor: p.seen(me.got.pred[0]), Whole: true, Revision: int64(me.token)})
		win(a)
	case "gives its enqueue up":
		a.Apply(production.AnswerLost{})
	case "settles":
		if a.Next() != production.Settle {
			return "it would not settle"
		}
		own := production.Key{Name: name(k)}
		if at >= 0 {
			own.Create = int64(p.s.queues[0].created[at])
		}
		a.Apply(production.Settled{Own: own})
	case "hears that the one before is gone":
		a.Apply(production.PredecessorDeleted{Key: p.seen(me.pred)})
	case "hears that its own key is gone":
		a.Apply(production.OwnDeleted{})
	case "hears of its handoff":
		a.Apply(p.handoff(k, p.s.handoffs[k]))
		win(a)
	case "gives up waiting":
		if !a.Apply(production.GaveUp{}).Remove {
			return "it leaves its key"
		}
	case "asks for its place":
		if a.Next() != production.Query {
			return "it would not ask"
		}
		l.answer(p, i, a)
		win(a)
	case "releases":
		return l.releases(p, i, a)
	case "is released", "is released without a handoff", "is released, the answer is lost,":
		return l.released(p, next, i, a, what)
	case "is undone":
		a.Apply(production.Removed{})
	case "settles, the answer is lost,":
	default:
		return "a step that is not known: " + what
	}
	return ""
}

// win looks at the clock where the engine would: the model's client has done so.
func win(a *production.Acquisition) {
	if a.Next() == production.Win {
		a.Apply(production.Won{})
	}
}

// answer is the transaction that decides who owns, as the engine reads it.
func (l *lockstep) answer(p *pair, i int, a *production.Acquisition) {
	at := p.s.queues[0].at(l.c.key(&p.s, i))
	switch {
	case at < 0:
		if p.s.sessions[i].alive {
			a.Apply(production.OwnDeleted{})
		} else {
			a.Apply(production.Over{})
		}
	case at == 0:
		a.Apply(production.Answered{Found: true, Revision: int64(p.s.rev), Successors: p.successors(p.s.successors(l.c, l.c.key(&p.s, i), 0))})
	default:
		a.Apply(production.Answered{Found: true, Revision: int64(p.s.rev), Predecessor: p.seen(p.s.predecessor(l.c, l.c.key(&p.s, i), 0, p.s.clients[i].token))})
	}
}

// releases sends the first delete, which is under way from then on.
func (l *lockstep) releases(p *pair, i int, a *production.Acquisition) (wrong string) {
	a.Apply(production.Released{})
	if a.Apply(production.DeleteSent{}).Handoff != (p.s.clients[i].heirs[0] != 0) {
		return "it hands off otherwise"
	}
	return ""
}

// released is an answer to a delete: the first one's, or where that was applied and its
// answer lost, a later one's.
func (l *lockstep) released(p, next *pair, i int, a *production.Acquisition, what string) (wrong string) {
	k := l.c.key(&p.s, i)
	there := p.s.queues[0].at(k) >= 0
	gone := p.s.releases[k].copies == 0
	if gone || what == "is released, the answer is lost," {
		if v := a.Apply(production.DeleteAnswered{Outcome: production.Unknown, Handoff: true}).Verdict; v != production.Bare {
			return "a lost answer is not followed by a bare delete"
		}
		if what == "is released, the answer is lost," {
			return ""
		}
	}
	outcome := production.Refused
	if there {
		outcome = production.Applied
	}
	v := a.Apply(production.DeleteAnswered{Outcome: outcome}).Verdict
	if v == production.Explain {
		v = a.Apply(production.Explained{SessionEnded: !p.s.sessions[i].alive}).Verdict
	}
	want := production.Finished
	if !there && !p.s.sessions[i].alive {
		want = production.Lost
	}
	// Gone though its lease lives: one of its own deletes was applied. Where none can
	// have been, nobody of the model deletes what is held.
	if v != want {
		return fmt.Sprintf("the release ends with %d, want %d", v, want)
	}
	return ""
}

// differs says what the model and the state of client i's acquisition disagree about.
func differs(p *pair, i int, a *production.Acquisition) string {
	me := &p.s.clients[i]
	want := map[pc][]production.Phase{
		enqueuing: {production.Enqueuing}, settling: {production.Settling}, waiting: {production.Waiting},
		asking: {production.Asking}, held: {production.Held}, releasing: {production.Releasing},
		undoing: {production.Undoing, production.Done},
	}[me.pc]
	k := a.Own()
	predecessor, _ := a.Predecessor()
	switch {
	case want == nil: // it has ended
		ph := a.Phase()
		// What became of a release is found out still, and a deletion is tried still.
		goesOn := me.pc == dead && (ph == production.Releasing || ph == production.Undoing)
		if ph != production.Done && !goesOn && !(ph == production.Enqueuing && k.Create == 0) {
			return fmt.Sprintf("the model's client has ended, and the state is in phase %d", ph)
		}
	case !slices.Contains(want, a.Phase()):
		return fmt.Sprintf("the model is in phase %d, the state in %d", me.pc, a.Phase())
	case me.pc >= waiting && me.pc <= releasing && k.Create != int64(me.token):
		return fmt.Sprintf("the model's token is %d, the state's %d", me.token, k.Create)
	case me.pc == waiting && predecessor != p.seen(me.pred):
		return fmt.Sprintf("the model waits for %d, the state for %v", me.pred, predecessor)
	case me.pc == held && !sameSuccessors(a.Successors(), p.successors(me.heirs)):
		return "they know other successors"
	case me.pc == held && p.s.sessions[i].valid && p.s.queues[0].n > 0 && p.s.queues[0].line[0].owner() != i:
		return "the state holds, and is not first"
	}
	return ""
}

// sameSuccessors reports whether two lists name the same keys.
func sameSuccessors(a, b keys.Successors) bool {
	for {
		x, restA, okA := a.First()
		y, restB, okB := b.First()
		if !okA || !okB {
			return okA == okB
		}
		if string(x.Name) != string(y.Name) || x.Create != y.Create {
			return false
		}
		a, b = restA, restB
	}
}

// walk walks both together and returns how many pairs there are, and what they disagree
// about.
func (l *lockstep) walk() (pairs int, wrong *Violation) {
	first := l.number(begin())
	start := pair{s: l.c.start()}
	for i := range start.twins {
		start.twins[i] = first
	}
	type from struct {
		at   int32
		step string
	}
	seen := map[pair]struct{}{start: {}}
	queue, came := []pair{start}, []from{{}}
	history := func(at int32, last string) (names []string) {
		for ; at > 0; at = came[at].at {
			names = append(names, came[at].step)
		}
		slices.Reverse(names)
		return append(names, last)
	}
	for at := 0; at < len(queue); at++ {
		p := queue[at]
		for _, st := range l.c.steps(&p.s) {
			if l.heardBefore(&p, st) {
				continue
			}
			next, bad := l.follow(&p, st)
			if bad != "" {
				return len(seen), &Violation{bad, history(int32(at), st.name)}
			}
			if _, ok := seen[next]; !ok {
				seen[next] = struct{}{}
				queue, came = append(queue, next), append(came, from{int32(at), st.name})
			}
		}
	}
	return len(seen), nil
}

// heardBefore reports whether a step tells a client of a handoff that it has heard of,
// which the model may hear again and again, and the state takes in once.
func (l *lockstep) heardBefore(p *pair, st step) bool {
	if !strings.HasPrefix(st.name, "hears of its handoff") {
		return false
	}
	a := l.twins[p.twins[st.name[len(st.name)-1]-'A']]
	return a.Mod() > a.Own().Create
}

func TestTheProductionStateAndTheModelSayTheSameInEveryInterleaving(t *testing.T) {
	configs := []Config{{Clients: alike(2, lock, lock), Deletes: 1, Exact: true}, {Clients: alike(3, lock), Exact: true}}
	if testing.Short() || raceDetector { // nothing here runs beside anything else, and the long walk takes the detector minutes
		configs = configs[:1]
	}
	for _, c := range configs {
		l := &lockstep{c: c, known: map[string]int32{}}
		pairs, wrong := l.walk()
		require.Nil(t, wrong, "%+v", c)
		assert.Greater(t, pairs, 10_000)
		t.Logf("%+v: %d pairs, %d states of an acquisition", c.Clients, pairs, len(l.twins))
	}
}
