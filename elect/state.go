package elect

import (
	"cmp"
	"slices"

	"github.com/pawl-locks/pawl/internal/watcher"
)

// A candidate is a key under the name, and its create revision.
type candidate struct {
	key    string
	create int64
}

// A proclaimed is what is known of one candidate's value. The zero proclaimed belongs to no
// candidate.
type proclaimed struct {
	candidate
	mod   int64 // the modification revision of value
	lease int64
	value []byte
}

// An electionState holds the candidates of a name at one revision: about a hundred bytes each,
// however large their values. It is pure; its owner guards it.
//
// Invariants: queue is in the order of create revisions; a candidate in it exists if and only
// if live has its create revision under its key. last is the latest known put of the candidate
// that was first at that moment.
//
// A candidate that is first stays first until its key is deleted, because a later one has a greater
// create revision. So if a read of one key finds it with the create revision that was first before,
// it shows the leader at the revision of the read, however far the watch lags.
type electionState struct {
	rev   int64 // the candidates are those of this revision
	live  map[string]int64
	queue []candidate
	last  proclaimed
}

// newElectionState returns the state of the candidates that were read at revision rev.
func newElectionState(rev int64, all []candidate) *electionState {
	slices.SortFunc(all, before)
	s := &electionState{rev: rev, live: make(map[string]int64, len(all)), queue: all}
	for _, c := range all {
		s.live[c.key] = c.create
	}
	return s
}

// before compares candidates by the order in which they lead.
func before(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.create, b.create), cmp.Compare(a.key, b.key))
}

// first returns who leads, or the zero candidate if nobody does.
func (s *electionState) first() candidate {
	for i, c := range s.queue {
		if s.live[c.key] == c.create {
			s.queue = s.queue[i:]
			return c
		}
	}
	s.queue = nil
	return candidate{}
}

// apply processes the events of whole revisions, the last of which is rev. Events up to the state's
// revision are known already.
func (s *electionState) apply(events []watcher.Event, rev int64) {
	if rev <= s.rev {
		return
	}
	for i := 0; i < len(events); {
		end := i + 1
		for end < len(events) && events[end].ModRevision == events[i].ModRevision {
			end++
		}
		if events[i].ModRevision > s.rev {
			s.applyOne(events[i:end])
		}
		i = end
	}
	s.rev = rev
	s.shrink()
}

// applyOne processes the events of one revision, and then finds the first candidate.
func (s *electionState) applyOne(events []watcher.Event) {
	came := len(s.queue)
	for _, ev := range events {
		switch {
		case ev.Deleted:
			delete(s.live, ev.Key)
		case s.live[ev.Key] != ev.CreateRevision:
			s.live[ev.Key] = ev.CreateRevision
			s.queue = append(s.queue, candidate{ev.Key, ev.CreateRevision})
		}
	}
	slices.SortFunc(s.queue[came:], before) // created at one revision: their keys decide
	first := s.first()
	for _, ev := range events {
		if ev.Key == first.key && !ev.Deleted {
			s.note(proclaimed{first, ev.ModRevision, ev.Lease, ev.Value})
		}
	}
}

// note records a value of the first candidate, unless a later one is known.
func (s *electionState) note(p proclaimed) {
	if s.last.candidate != p.candidate || s.last.mod < p.mod {
		s.last = p
	}
}

// leader returns who leads, with the value. known is false if the value has to be read.
func (s *electionState) leader() (p proclaimed, known bool) {
	first := s.first()
	switch {
	case first.create == 0:
		return proclaimed{}, true
	case s.last.candidate == first:
		return s.last, true
	}
	return proclaimed{candidate: first}, false
}

// shrink drops deleted candidates when they are the majority.
func (s *electionState) shrink() {
	if len(s.queue) < 64 || len(s.queue) < 2*len(s.live) {
		return
	}
	alive := make([]candidate, 0, len(s.live))
	for _, c := range s.queue {
		if s.live[c.key] == c.create {
			alive = append(alive, c)
		}
	}
	s.queue = alive
}
