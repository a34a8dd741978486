package model

import (
	"cmp"
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
// the model reaches the production state as the events that the engine would make of
// it, in each of the ways in which the engine may learn of it, and after each both must
// say the same, for every client and in every interleaving. What the server does is the
// model's part; what it does not have the walk adds: modification revisions, and values that
// a client puts on its key while it holds.

// A pair is the model and, beside each of its clients, the state of that client's
// acquisition, by its number in the table.
type pair struct {
	s       state
	created [maxKeys + 1]uint8 // of all keys that ever were
	twins   [maxClients]int32
	wrote   [maxClients]writing
	unsure  [maxClients]bool // an answer to its release was lost
}

// writing is the outcome of a value that a client put on its key.
type writing uint8

const (
	unwritten writing = iota
	written           // applied, and known to be
	doubted           // applied, and its answer lost
	vanished          // its answer lost, and never applied
)

// lockstep is a walk of both.
type lockstep struct {
	c        Config
	rewrites bool // holders put values on their keys

	twins []production.Machine
	known map[string]int32 // twins by what they are
}

// number is the number of a in the table.
func (l *lockstep) number(a production.Machine) int32 {
	as := fmt.Sprint(a) // a state has no strings but keys
	if n, ok := l.known[as]; ok {
		return n
	}
	n := int32(len(l.twins))
	l.twins, l.known[as] = append(l.twins, a), n
	return n
}

// label is what a value begins with that can be handed off to.
const label = keys.LockMark + `"owner":"a"}`

// names are the queue keys of k, one for each of its names, in their order.
func (l *lockstep) names(k key) (all []string) {
	for n, mode := range l.c.want(k) {
		if mode != Not {
			all = append(all, l.in(k, n))
		}
	}
	return all
}

// in is the queue key of k in the queue of name n.
func (l *lockstep) in(k key, n int) string {
	form := keys.Exclusive
	switch l.c.want(k)[n] {
	case Shared:
		form = keys.Shared
	case Permit:
		form = keys.Turnstile
	}
	return keys.QueueKey{Lease: int64(k), N: 1, Form: form}.In([]string{"n/", "m/"}[n])
}

// name is the queue key of k, or its first.
func (l *lockstep) name(k key) string { return l.names(k)[0] }

// present reports, for each queue key of k in their order, whether it is there.
func (l *lockstep) present(p *pair, k key) (there []bool) {
	if l.hasSlot(p, k) {
		return []bool{p.s.slotOf(k) >= 0}
	}
	for n := range p.s.queues {
		if l.c.names(k).has(n) {
			there = append(there, p.s.queues[n].at(k) >= 0)
		}
	}
	return there
}

// gone is the index of the first queue key of k that does not exist, or -1 if all do.
func (l *lockstep) gone(p *pair, k key) int { return slices.Index(l.present(p, k), false) }

// isSet reports whether k is of several names.
func (l *lockstep) isSet(k key) bool { return len(l.names(k)) > 1 }

// isThere reports whether k, which is waited for in the queue of name n, is there.
func (p *pair) isThere(k key, n uint8) bool { return p.s.queues[n].at(k) >= 0 }

// seen is the key of k in the queue of name n, as the production state knows it.
func (l *lockstep) seen(p *pair, k key, n uint8) production.Key {
	if k == 0 {
		return production.Key{}
	}
	return production.Key{Name: l.in(k, int(n)), Create: int64(p.created[k])}
}

// successors are h as a handoff carries them.
func (l *lockstep) successors(p *pair, h successors) keys.Successors {
	var all []keys.Successor
	for _, k := range h {
		if k != 0 {
			_, name := keys.Split(l.name(k))
			all = append(all, keys.Successor{Name: []byte(name), Create: int64(p.created[k]), Value: []byte(label)})
		}
	}
	return keys.NewSuccessors(slices.Values(all))
}

// The modification revisions of a key, beyond its create revision: of a handoff to it,
// of the value that its holder put, and of what somebody else put. Of each nothing is
// known but that it is newer.
const (
	byHandoff = 100
	byHolder  = 50
	byOther   = 200
)

// value is what a holder puts on its key.
var value = []byte("a value")

// handoff is k as the handoff g makes it.
func (l *lockstep) handoff(p *pair, k key, g handoff) production.OwnChanged {
	_, by := keys.Split(l.name(g.by))
	first, rest, _ := l.successors(p, successors{k, g.next[0]}).First()
	return production.OwnChanged{
		Create: int64(p.created[k]), Mod: int64(p.created[k]) + byHandoff, OnLease: true,
		Value: first.HandedOff(by, int64(p.created[g.by]), rest),
	}
}

// own is client i's key as it is at the server, where it is there; ok is false where a
// handoff is on it.
func (l *lockstep) own(p *pair, i int) (changed production.OwnChanged, ok bool) {
	k := l.c.key(&p.s, i)
	created := l.createdOf(p, k)
	changed = production.OwnChanged{Create: created, Mod: created, OnLease: true}
	switch {
	case p.s.handoffs[k].by != 0:
		return l.handoff(p, k, p.s.handoffs[k]), false
	case p.wrote[i] == written, p.wrote[i] == doubted:
		changed.Mod += byHolder
		changed.Value = value
	}
	return changed, true
}

// overwritten is client i's key as somebody else's put makes it, with another value, or with the
// one that the client has put before.
func (l *lockstep) overwritten(p *pair, i int) production.OwnChanged {
	created := l.createdOf(p, l.c.key(&p.s, i))
	changed := production.OwnChanged{Create: created, Mod: created + byOther, OnLease: true, Value: []byte("another value")}
	if p.wrote[i] == written {
		changed.Value = value
	}
	return changed
}

// observed is what a renewal's read shows of client i's key at index and, with the first, of
// its predecessor.
func (l *lockstep) observed(p *pair, i, index int) production.Observed {
	ev := production.Observed{Revision: int64(p.s.rev) + byOther, Index: index}
	if l.present(p, l.c.key(&p.s, i))[index] {
		own, _ := l.own(p, i)
		ev.Own = production.Seen{Create: own.Create, Mod: own.Mod}
	}
	me := p.s.clients[i]
	if index == 0 && me.pred != 0 && p.isThere(me.pred, me.in) {
		ev.Predecessor = production.Seen{Create: int64(p.created[me.pred]), Mod: int64(p.created[me.pred])}
	}
	return ev
}

// A report is one way in which a client learns of a step: the events that the engine
// makes of it. It returns what is wrong with what they did.
type report func(a *production.Machine) (wrong string)

// follow returns the pairs that p becomes by the model's step st, one for each way in which the
// client learns of it, or why one of them is wrong.
func (l *lockstep) follow(p *pair, st step) (all []pair, wrong string) {
	next := *p
	next.s = st.to
	for n := range st.to.queues {
		for i := range int(st.to.queues[n].n) {
			next.created[st.to.queues[n].line[i]] = st.to.queues[n].created[i]
		}
	}
	if l.networkOnly(st.name) {
		return []pair{next}, ""
	}
	i := int(st.name[len(st.name)-1] - 'A')
	what := st.name[:len(st.name)-2]
	me := next.s.clients[i]
	if me.pc == waiting && l.otherQueue(p, &next, i) {
		return nil, ""
	}
	for _, report := range l.reports(p, &next, i, what) {
		next := next
		a := l.twins[p.twins[i]]
		if wrong := report(&a); wrong != "" {
			return nil, wrong
		}
		if wrong := l.differs(&next, i, &a); wrong != "" {
			return nil, wrong
		}
		if l.forgets(&next, l.c.key(&p.s, i), &a) {
			return nil, fmt.Sprintf("a key of client %d may exist, and nothing removes it", i)
		}
		next.unsure[i] = next.unsure[i] || what == "is released, the answer is lost,"
		if me.pc == idle || me.pc == done || me.pc == dead || me.pc == handed {
			a = l.begin(&next, i) // it has ended, and what it was does not matter
		}
		next.twins[i] = l.number(a)
		all = append(all, next)
	}
	return all, ""
}

// otherQueue reports whether client i, which waits, might as well wait in another of its
// queues by the model, and does by the engine: it chooses the last-created key.
func (l *lockstep) otherQueue(p, next *pair, i int) bool {
	was, me := &p.s.clients[i], &next.s.clients[i]
	if was.pc != enqueuing && was.pc != querying {
		return false
	}
	k := l.c.key(&next.s, i)
	for n := range next.s.queues {
		other := was.got.pred[n]
		if was.pc == querying && l.c.names(k).has(n) {
			other = next.s.predecessor(l.c, k, n, me.token)
		}
		if other != 0 && next.created[other] > next.created[me.pred] {
			return true
		}
		if other == me.pred && other != 0 && n < int(me.in) {
			return true // of one that is before it in both, the first
		}
	}
	return false
}

// networkOnly reports whether a step is one that no client notices.
func (l *lockstep) networkOnly(name string) bool {
	for _, w := range []string{"passes its deadline", "loses its lease", "an operator deletes", "an enqueue", "a take", "a release", "the delay passes"} {
		if strings.HasPrefix(name, w) {
			return true
		}
	}
	return false
}

// begin is client i's next acquisition.
func (l *lockstep) begin(p *pair, i int) production.Machine {
	shared := strings.Contains(l.name(l.c.key(&p.s, i)), "+")
	p.wrote[i], p.unsure[i] = unwritten, false
	return production.Begin(production.Options{Handoffs: !l.c.NoHandoffs, Shared: shared, Limit: l.c.limit(l.c.key(&p.s, i))})
}

// events is the report by events that decide no more than they are.
func events(all ...production.Event) report {
	return func(a *production.Machine) string {
		for _, ev := range all {
			if left, _ := leaves(a, ev); left {
				return fmt.Sprintf("it has to be undone after %T, and nobody is told", ev)
			}
		}
		win(a)
		return ""
	}
}

// expects is the report of events for a client whose next step is to be this one.
func expects(next production.Step, all ...production.Event) report {
	return func(a *production.Machine) string {
		if a.Next() != next {
			return fmt.Sprintf("its next step is %d, want %d", a.Next(), next)
		}
		return events(all...)(a)
	}
}

// reports are the ways in which client i learns of the step which leads from p to next.
func (l *lockstep) reports(p, next *pair, i int, what string) []report {
	k := l.c.key(&p.s, i)
	me := &p.s.clients[i]
	gone := l.gone(p, k)
	if r := l.takeover(p, next, i, what); r != nil {
		return []report{r}
	}
	switch what {
	case "sees its session ended":
		return []report{events(production.EndOfSession{})}
	case "sends enqueue":
		return []report{expects(production.Enqueue, production.Begun{})}
	case "learns of its enqueue":
		if !me.got.ok {
			return []report{events(production.EndOfSession{})} // the only reason there is, before it is settled
		}
		whole := !l.c.isPermit(k) // of a semaphore the slots are read by the next query
		ev := production.Enqueued{Own: production.Key{Name: l.name(k), Create: int64(me.token)}, Others: l.names(k)[1:], Whole: whole, Revision: int64(me.token)}
		if next := &next.s.clients[i]; next.pc == waiting {
			ev.Predecessor = l.seen(p, next.pred, next.in)
		}
		return []report{events(ev)}
	case "gives its enqueue up":
		return []report{events(production.AnswerLost{})}
	case "settles":
		ev := production.Settled{Own: production.Key{Name: l.name(k)}, Others: l.names(k)[1:]}
		if slices.Contains(l.present(p, k), true) {
			ev.Own.Create = int64(p.created[k])
			if gone >= 0 {
				return []report{expects(production.Settle, ev, production.OwnDeleted{Index: gone})}
			}
		}
		return []report{expects(production.Settle, ev)}
	case "learns that the one before is gone":
		all := []report{events(production.PredecessorDeleted{Key: l.seen(p, me.pred, me.in)})}
		if own, ok := l.own(p, i); gone < 0 && ok && own.Mod == own.Create {
			all = append(all, events(l.observed(p, i, 0)))
		}
		return all
	case "learns that its own key is gone", "learns of its loss":
		if l.c.isPermit(k) && me.pc == full {
			return l.goneWhileFull()
		}
		return l.losses(p, i)
	case "learns of its handoff":
		changed := l.handoff(p, k, p.s.handoffs[k])
		return []report{events(changed), func(a *production.Machine) string {
			seen := l.observed(p, i, 0)
			seen.Predecessor = production.Seen{Create: int64(p.created[me.pred])} // its deletion is another event
			if !a.Apply(seen).Read {
				return "a handoff that a read shows is not read"
			}
			return events(changed, production.ReadEnded{})(a)
		}}
	case "gives up waiting":
		return []report{func(a *production.Machine) string {
			if left, _ := leaves(a, production.GaveUp{}); left {
				return "it leaves its key"
			}
			return ""
		}}
	case "queries its position":
		return []report{expects(production.Query, l.answer(p, next, i))}
	case "queries its turn":
		return []report{expects(production.Query, l.answerTurn(p, next, i))}
	case "learns of its take":
		ev := production.TakeAnswered{Outcome: production.Refused}
		if me.got.ok {
			ev.Outcome, ev.Own = production.Applied, production.Key{Name: l.slotName(k, int(me.slot)), Create: int64(me.token)}
		}
		return []report{expects(production.Take, ev)}
	case "gives its take up":
		return []report{expects(production.Take, production.TakeAnswered{Outcome: production.Unknown})}
	case "learns that a slot is free":
		return l.freed(p, i)
	case "releases":
		return []report{func(a *production.Machine) string { return l.releases(p, i, a) }}
	case "has held for too long":
		return []report{func(a *production.Machine) string {
			if fx := a.Apply(production.HoldExpired{}); fx.End != production.HeldTooLong || !fx.Held || fx.Remove {
				return fmt.Sprintf("a hold that lasted too long ends otherwise: %+v", fx)
			}
			return ""
		}}
	case "winds up":
		return []report{events()}
	case "is released", "is released without a handoff", "is released, the answer is lost,":
		all := []report{func(a *production.Machine) string { return l.released(p, i, a, what, false) }}
		if gone < 0 && what != "is released, the answer is lost," {
			all = append(all, func(a *production.Machine) string { return l.released(p, i, a, what, true) })
		}
		return all
	case "is undone":
		return []report{events(production.Removed{})}
	case "settles, the answer is lost,":
		return []report{events()}
	}
	return []report{func(*production.Machine) string { return "a step that is not known: " + what }}
}

// losses are the ways in which client i learns that one of its keys is gone, or that somebody
// else has written to one: what it has beside that stays where it held, and goes where it
// waited (ML6).
func (l *lockstep) losses(p *pair, i int) (all []report) {
	k := l.c.key(&p.s, i)
	was := p.s.clients[i].pc == held
	lost := func(ev production.Event, end production.End, index int) {
		all = append(all, func(a *production.Machine) string {
			fx := a.Apply(ev)
			rest := l.isSet(k)
			if fx.End != end || fx.Held != was || fx.Own != index || fx.Rest != (rest && was) || fx.Remove != (rest && !was) {
				return fmt.Sprintf("%+v is a loss otherwise: %+v", ev, fx)
			}
			if end == production.KeyOverwritten && a.Phase != production.Undoing {
				return "a key that somebody wrote to is there, and forgotten"
			}
			return ""
		})
	}
	for index, there := range l.present(p, k) {
		if !there {
			lost(production.OwnDeleted{Index: index}, production.KeyDeleted, index)
			lost(l.observed(p, i, index), production.KeyDeleted, index)
		}
		overwritten := l.overwritten(p, i)
		overwritten.Index = index
		lost(overwritten, production.KeyOverwritten, index)
	}
	return all
}

// win reads the clock where the engine would: the model's client has done so.
func win(a *production.Machine) {
	if a.Next() == production.Win {
		a.Apply(production.Won{})
	}
}

// answer is the transaction that decides who owns, as the engine reads it.
func (l *lockstep) answer(p, next *pair, i int) production.Event {
	k := l.c.key(&p.s, i)
	if gone := l.gone(p, k); gone >= 0 {
		if p.s.sessions[l.c.session(k)].alive {
			return production.OwnDeleted{Index: gone}
		}
		return production.EndOfSession{}
	}
	ev := production.Answered{Found: true, Revision: int64(p.s.rev)}
	if to := &next.s.clients[i]; to.pc == waiting {
		ev.Predecessor = l.seen(p, to.pred, to.in)
		return ev
	}
	for n := range p.s.queues {
		if l.c.names(k).has(n) && !l.isSet(k) {
			ev.Successors = l.successors(p, p.s.successors(l.c, k, n))
		}
	}
	return ev
}

// releases sends the first delete, which is then under way.
func (l *lockstep) releases(p *pair, i int, a *production.Machine) (wrong string) {
	a.Apply(production.Released{})
	if a.Apply(production.DeleteSent{}).Handoff != (p.s.clients[i].next[0] != 0) {
		return "it hands off otherwise"
	}
	return ""
}

// released is an answer to a delete: the first one's, or where that was applied and its
// answer lost, a later one's. spoilt: somebody else wrote to the key before it was
// deleted.
func (l *lockstep) released(p *pair, i int, a *production.Machine, what string, spoilt bool) (wrong string) {
	k := l.c.key(&p.s, i)
	there := l.gone(p, k) < 0
	applied := p.s.releases[k].copies == 0 && p.s.clients[i].lost == 0
	doubt := applied || what == "is released, the answer is lost,"
	if doubt {
		if v := a.Apply(production.DeleteAnswered{Outcome: production.Unknown, Handoff: true}).Verdict; v != production.Bare {
			return "a lost answer is not followed by a bare delete"
		}
		if what == "is released, the answer is lost," {
			return ""
		}
	}
	exact := !doubt
	if exact && spoilt && there {
		if v := a.Apply(production.DeleteAnswered{Outcome: production.Refused, Remains: production.Remains{There: len(l.names(k))}}).Verdict; v != production.Bare {
			return "a delete that was refused though its key is there is not followed by a bare one"
		}
		exact = false
	}
	answered := production.DeleteAnswered{Outcome: production.Refused}
	for n, is := range l.present(p, k) {
		if is {
			answered.Remains.There++
		} else {
			answered.Remains.Gone, answered.Remains.Index = answered.Remains.Gone+1, n
		}
	}
	if there {
		answered.Outcome = production.Applied
		answered.Was, _ = l.own(p, i)
		if a.Evidence == production.ByHandoff {
			answered.Was = production.OwnChanged{Create: a.Own.Create, Mod: a.Mod, OnLease: true}
		}
	}
	if exact {
		answered.Was = production.OwnChanged{}
	}
	if spoilt {
		answered.Was = l.overwritten(p, i)
	}
	left, fx := leaves(a, answered)
	v := fx.Verdict
	if v == production.Explain {
		left, fx = leaves(a, production.Explained{SessionEnded: !p.s.sessions[l.c.session(k)].alive, Remains: answered.Remains})
		v = fx.Verdict
	}
	if left {
		return "a release leaves what is left of a set, and nobody is told"
	}
	// It is gone though its lease is alive, so one of its deletes was applied or, if none can have
	// been, somebody else's.
	want := production.Finished
	others := p.s.clients[i].lost != 0 && !doubt && !p.unsure[i]
	if part := answered.Remains.There > 0 && !there; spoilt || part || !there && (others || !p.s.sessions[l.c.session(k)].alive) {
		want = production.Lost
	}
	if v != want {
		return fmt.Sprintf("the release ends with %d, want %d", v, want)
	}
	return ""
}

// leavesCopy reports whether a copy of client i's enqueue may still be applied, and the state, which has to be
// undone, would have its keys removed without the cancel key (rule A5).
func (l *lockstep) leavesCopy(p *pair, i int, a *production.Machine) bool {
	k := l.c.key(&p.s, i)
	open := p.s.sessions[l.c.session(k)].alive && p.s.inFlight[k] != 0 && !p.s.cancel[k]
	return open && p.s.clients[i].pc == undoing && !a.Late()
}

// differs says what the model and the state of client i's acquisition disagree about.
func (l *lockstep) differs(p *pair, i int, a *production.Machine) string {
	me := &p.s.clients[i]
	want := map[pc][]production.Phase{
		enqueuing: {production.Enqueuing}, settling: {production.Settling}, waiting: {production.Waiting},
		querying: {production.Querying}, full: {production.Full}, taking: {production.Taking},
		held: {production.Held}, releasing: {production.Releasing},
		undoing: {production.Undoing, production.Done}, winding: {production.Undoing},
	}[me.pc]
	if me.pc == querying && me.was { // until the query is answered nobody has it
		want = []production.Phase{production.Enqueuing}
	}
	k := a.Own
	predecessor := a.Predecessor
	switch {
	case want == nil: // it has ended
		ph := a.Phase
		// The release is still decided, and the deletion still tried.
		goesOn := (me.pc == dead || me.pc == handed) && ph == production.Releasing || ph == production.Undoing
		if me.pc == handed && (ph == production.Held) != me.was {
			return fmt.Sprintf("the session is handed over, it was held: %t, and the state is in phase %d, from which a Handle is written", me.was, ph)
		}
		if a.End != production.SessionEnded && ph != production.Done && !goesOn && !(ph == production.Enqueuing && k.Create == 0) {
			return fmt.Sprintf("the model's client has ended, and the state is in phase %d", ph)
		}
	case l.leavesCopy(p, i, a):
		return "a copy of the enqueue may be applied, and its removal puts no cancel key"
	case !slices.Contains(want, a.Phase):
		return fmt.Sprintf("the model is in phase %d, the state in %d", me.pc, a.Phase)
	case l.c.isPermit(l.c.key(&p.s, i)):
		return l.slotDiffers(p, i, a)
	case me.pc >= waiting && me.pc <= releasing && k.Create != int64(me.token) && !(me.pc == querying && me.was):
		return fmt.Sprintf("the model's token is %d, the state's %d", me.token, k.Create)
	case me.pc == waiting && predecessor != l.seen(p, me.pred, me.in):
		return fmt.Sprintf("the model waits for %d, the state for %v", me.pred, predecessor)
	case me.pc == held && !sameSuccessors(a.Successors, l.successors(p, me.next)):
		return "they know other successors"
	}
	for n := range p.s.queues {
		own := l.c.key(&p.s, i)
		if me.pc == held && p.s.sessions[l.c.session(own)].valid && me.lost == 0 && l.c.names(own).has(n) && p.s.predecessor(l.c, own, n, me.token) != 0 {
			return "the state holds, and is not first"
		}
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

// idle checks what client i is shown that is no news: it changes nothing, and a watch
// that has ended is renewed by it (A4).
func (l *lockstep) idle(p *pair, i int) (wrong string) {
	me := p.s.clients[i]
	own, ok := l.own(p, i)
	k := l.c.key(&p.s, i)
	there := l.gone(p, k) < 0 && (me.pred == 0 || p.isThere(me.pred, me.in))
	if l.c.isPermit(k) && me.pc == held { // the watch of its slot's key begins later
		return ""
	}
	if me.pc != waiting && me.pc != held || !there || !ok && me.pc == waiting {
		return ""
	}
	was := l.twins[p.twins[i]]
	if p.wrote[i] == doubted || own.Mod > was.Mod || !ok {
		return ""
	}
	for _, stale := range []production.Key{{}, was.Own} {
		a := was
		if a.Apply(production.PredecessorDeleted{Key: stale}); l.number(a) != p.twins[i] {
			return "the end of a key that is not waited for changes the state"
		}
	}
	pred := l.seen(p, me.pred, me.in)
	for index, name := range l.names(k) {
		seen := l.observed(p, i, index)
		if index == 0 {
			seen.Own.Mod = max(seen.Own.Mod, was.Mod)
		}
		own := production.Key{Name: name, Create: was.Own.Create}
		for _, ended := range []production.Key{{}, own, pred} {
			a := was
			a.Apply(production.WatchEnded{Key: ended})
			fx := a.Apply(seen)
			followed := index == 0 && ended == pred && ended != production.Key{}
			if index > 0 && ended == pred {
				a.Apply(l.observed(p, i, 0))
			}
			switch {
			case l.number(a) != p.twins[i]:
				return "a look without news changes the state"
			case fx.WatchOwn != (ended == own), fx.WatchOwn && fx.Own != index, (fx.Follow != production.Key{}) != followed:
				return "a look renews another watch than the one that has ended"
			}
		}
	}
	return ""
}

// writes returns the pairs that p becomes when client i, which holds, puts a value on its key:
// it is applied, or its answer is lost and it is applied, or never is. A later read shows it.
func (l *lockstep) writes(p *pair, i int) (all []pair, wrong string) {
	me := p.s.clients[i]
	if !l.rewrites || me.pc != held || me.lost != 0 || !p.s.sessions[i].alive {
		return nil, ""
	}
	become := func(a production.Machine, w writing) {
		next := *p
		next.wrote[i] = w
		next.twins[i] = l.number(a)
		all = append(all, next)
	}
	switch p.wrote[i] {
	case unwritten:
		for w, answered := range map[writing]production.WriteAnswered{
			written:  {Outcome: production.Applied, Mod: int64(me.token) + byHolder},
			doubted:  {Outcome: production.Unknown, Unread: true},
			vanished: {Outcome: production.Unknown, Unread: true},
		} {
			a := l.twins[p.twins[i]]
			v := a.Apply(production.Rewriting{Value: value}).Verdict
			if sent := a.Apply(production.WriteSent{}); sent.Verdict != production.Again || sent.Mod != a.Mod {
				return nil, "a write is not sent, or not with the present revision"
			}
			got := a.Apply(answered).Verdict
			a.Apply(production.RewriteEnded{})
			if want := map[writing]production.Verdict{written: production.Finished, doubted: production.Doubt, vanished: production.Doubt}[w]; v != production.Again || got != want {
				return nil, fmt.Sprintf("a write ends with %d, want %d", got, want)
			}
			become(a, w)
		}
	case doubted:
		a := l.twins[p.twins[i]]
		if !a.Apply(l.observed(p, i, 0)).Read {
			return nil, "a value in doubt that a look shows is not read"
		}
		changed, _ := l.own(p, i)
		a.Apply(changed)
		a.Apply(production.ReadEnded{})
		if a.Phase != production.Held || a.Mod != changed.Mod {
			return nil, "its own value ends the hold"
		}
		become(a, written)
	}
	return all, ""
}

// walk walks both together and returns how many pairs there are, and what they disagree
// about.
func (l *lockstep) walk() (pairs int, wrong *Violation) {
	start := pair{s: l.c.start()}
	for i := range l.c.Clients {
		start.twins[i] = l.number(l.begin(&start, i))
	}
	type from struct {
		at   int32
		step string
	}
	seen := newFingerprints[pair]()
	seen.add(&start)
	queue, came := []pair{start}, []from{{}}
	history := func(at int, last string) (names []string) {
		for at := int32(at); at > 0; at = came[at].at {
			names = append(names, came[at].step)
		}
		slices.Reverse(names)
		return append(names, last)
	}
	reach := func(at int, step string, all []pair) {
		for _, next := range all {
			if seen.add(&next) {
				queue, came = append(queue, next), append(came, from{int32(at), step})
			}
		}
	}
	for at := 0; at < len(queue); at++ {
		p := queue[at]
		queue[at] = pair{}
		for i := range l.c.Clients {
			bad := cmp.Or(l.idle(&p, i), l.givesUp(&p, i))
			var all []pair
			if bad == "" {
				all, bad = l.writes(&p, i)
			}
			if bad != "" {
				return len(came), &Violation{bad, history(at, fmt.Sprintf("client %c", 'A'+i))}
			}
			reach(at, fmt.Sprintf("writes %c", 'A'+i), all)
		}
		for _, st := range l.c.steps(&p.s) {
			if l.seenBefore(&p, st) {
				continue
			}
			all, bad := l.follow(&p, st)
			if bad != "" {
				return len(came), &Violation{bad, history(at, st.name)}
			}
			reach(at, st.name, all)
		}
	}
	return len(came), nil
}

// seenBefore reports whether a step shows a client a handoff that it has seen,
// which the model may see again and again, and the state takes in once.
func (l *lockstep) seenBefore(p *pair, st step) bool {
	if !strings.HasPrefix(st.name, "learns of its handoff") {
		return false
	}
	a := l.twins[p.twins[st.name[len(st.name)-1]-'A']]
	return a.Mod > a.Own.Create
}

// rule: A2, A5, A6, N6, ML5, SM1, SM2, SM3
func TestTheProductionStateAndTheModelSayTheSameInEveryInterleaving(t *testing.T) {
	swapped := []Client{{Wants: []Want{reader, lock}}, {Wants: []Want{lock, reader}, Session: 1}}
	for _, walk := range []struct {
		name  string
		l     lockstep
		pairs int
	}{
		{"locks", lockstep{c: Config{Clients: alike(2, lock, lock), Deletes: 1}}, 403_375},
		{"a reader, a writer, a reader", lockstep{c: Config{Clients: each(reader, lock, reader)}}, 718_864},
		{"readers that become writers, and back", lockstep{c: Config{Clients: swapped, Losses: 1}}, 296_671},
		{"locks with a lock-delay", lockstep{c: Config{Clients: alike(2, lock), Deletes: 1, Losses: 1, LockDelay: true}}, 40_001},
		{"two sets with a lock-delay, a key deleted", lockstep{c: Config{Clients: alike(2, both), Losses: 1, LockDelay: true}}, 47_497},
		{"a reader and a writer with a lock-delay, taken over", lockstep{c: Config{Clients: each(reader, lock), Takeovers: true, LockDelay: true}}, 43_626},
		{"elections", lockstep{c: Config{Clients: alike(2, lock), Deletes: 1, Losses: 1, NoHandoffs: true}, rewrites: true}, 105_335},
		{"elections, no key deleted", lockstep{c: Config{Clients: alike(2, lock), NoHandoffs: true}, rewrites: true}, 46_949},
		{"three locks", lockstep{c: Config{Clients: alike(3, lock)}}, 1_152_252},
		{"two sets, their keys deleted", lockstep{c: Config{Clients: alike(2, both), Deletes: 1, Losses: 1}}, 57_699},
		{"a set and a lock", lockstep{c: Config{Clients: each(both, second), Deletes: 1, Losses: 1}}, 46_908},
		{"a set of mixed modes and a reader", lockstep{c: Config{Clients: each(mixed, readBoth), Deletes: 1, Losses: 1}}, 59_978},
		{"a set of mixed modes and a reader, no key deleted", lockstep{c: Config{Clients: each(mixed, readBoth)}}, 7_049},
		{"two sets, twice", lockstep{c: Config{Clients: alike(2, both, both)}}, 118_521},
		{"a set, a lock and a set of mixed modes", lockstep{c: Config{Clients: []Client{{Wants: []Want{both, readBoth}}, {Wants: []Want{second, mixed}, Session: 1}}, Deletes: 1, Losses: 1}}, 1_959_255},
		{"a set and two locks", lockstep{c: Config{Clients: each(both, lock, second)}}, 734_318},
		{"permits of one slot, their keys deleted", lockstep{c: Config{Clients: limited(1, 1), Deletes: 1, Losses: 1}}, 53_317},
		{"permits under two limits, their keys deleted", lockstep{c: Config{Clients: limited(1, 2), Deletes: 1, Losses: 1}}, 53_317},
		{"permits under two limits, a key deleted", lockstep{c: Config{Clients: limited(1, 2), Losses: 1}}, 93_425},
		{"three permits, two of one session", lockstep{c: Config{Clients: []Client{{Wants: []Want{permit}, Limit: 1}, {Wants: []Want{permit}, Limit: 1}, {Wants: []Want{permit}, Session: 2, Limit: 1}}}}, 4_722_120},
		{"two locks taken over", lockstep{c: Config{Clients: alike(2, lock), Takeovers: true, Deletes: 1, Losses: 1}}, 139_244},
		{"a reader and a writer taken over", lockstep{c: Config{Clients: each(reader, lock), Takeovers: true, Deletes: 1}}, 62_585},
		{"a reader and a writer taken over, no key deleted", lockstep{c: Config{Clients: each(reader, lock), Takeovers: true}}, 34_606},
		{"a set and a lock taken over", lockstep{c: Config{Clients: each(both, lock), Takeovers: true, Deletes: 1}}, 70_883},
		{"a set and a lock taken over, no key deleted", lockstep{c: Config{Clients: each(both, lock), Takeovers: true}}, 34_606},
		{"permits taken over", lockstep{c: Config{Clients: limited(1, 2), Takeovers: true, Deletes: 1, Losses: 1}}, 361_242},
		{"permits of two slots", lockstep{c: Config{Clients: limited(2, 2)}}, 69_231},
	} {
		t.Run(walk.name, func(t *testing.T) {
			fits(t, walk.pairs)
			t.Parallel()
			l := &walk.l
			l.c.Exact, l.known = true, map[string]int32{}
			pairs, wrong := l.walk()
			require.Nil(t, wrong)
			t.Logf("%d pairs, %d states of an acquisition", pairs, len(l.twins))
			assert.Equal(t, walk.pairs, pairs, "where the model or the walk has changed, the table follows")
		})
	}
}
