// Package reclaim is a model of rules RC1 to RC5. A process holds, forks, closes what it should not, dies, and
// hands its session over. Its directory is copied and cloned. A reclaimer proves deaths and revokes, and the
// next holder and a process that takes the session over act at any instant between. Every interleaving is
// walked, and each rule is needed.
package reclaim

// Rules are what somebody could leave out, each breaking one rule.
type Rules struct {
	Descriptor    bool // RC1: a descriptor keeps the lock, and no mapping
	PublishedLate bool // RC1: the file is published after the first key
	NoInode       bool // RC2: a copy proves a death
	NoBoot        bool // RC2: a clone of the machine's disk proves one
	BareRevoke    bool // RC3: the revocation comes without the transaction before it
	NoDelay       bool // RC4: no lock-delay passes
	UnlockedFirst bool // RC5: the lock is freed before the file is removed
	DetachKeeps   bool // RC5: Detach does not remove the file
}

// phase is what the reclaimer is about to do.
type phase uint8

const (
	looks   phase = iota
	waits         // for the lock-delay
	deletes       // the session key
	revokes       // the lease
	unlocks       // with UnlockedFirst, before it removes
	removes       // the file
	finished
)

// state is one state of all.
type state struct {
	// The process: its memory, its descriptor, its forked child's.
	alive, believes, stopped          bool
	descriptor                        bool
	child, childBelieves, childsDescr bool
	writing                           bool // a write of it is under way

	// The file system.
	published, file, copied, cloned bool

	// The server. mod is the session key's: 0 gone, 1 the process's, 2 the successor's.
	session, lease, key bool
	mod                 uint8

	// The others.
	handle, resumed, refused bool // of the process that takes the session over
	next                     bool // the next holder holds
	late                     bool // a write came after that

	reclaimer phase
	proofs    uint8 // of this one death
}

// locked reports whether the file's lock is held by somebody with the memory, or the reclaimer.
func (s *state) locked(r Rules) bool {
	if r.Descriptor {
		return s.alive && s.descriptor || s.child && s.childsDescr
	}
	return s.alive || s.child
}

// wrong is what must never be, or "".
func (s *state) wrong() string {
	believers := 0
	for _, b := range []bool{s.alive && s.believes, s.child && s.childBelieves, s.resumed, s.next} {
		if b {
			believers++
		}
	}
	if s.alive && s.believes && s.child && s.childBelieves {
		believers-- // one memory, copied
	}
	switch {
	case believers > 1:
		return "two believe"
	case s.late:
		return "a write comes after the next holder's"
	case s.refused:
		return "a session that was handed over is reclaimed"
	case s.proofs > 1:
		return "one death is proved twice"
	case !s.alive && !s.child && s.key && s.lease && !s.published && !s.handle && !s.resumed:
		return "nobody can free what a dead process holds"
	}
	return ""
}

// steps calls to with each state that may come after s, and what leads to it.
func (s state) steps(r Rules, to func(string, state)) {
	may := func(what string, when bool, do func(*state)) {
		if when {
			after := s
			do(&after)
			to(what, after)
		}
	}
	s.processSteps(r, may)
	s.othersSteps(r, may)
	s.reclaimerSteps(r, may)
}

type may func(what string, when bool, do func(*state))

func (s state) processSteps(r Rules, may may) {
	runs := s.alive && !s.stopped
	ready := s.published || r.PublishedLate
	may("puts its session key", runs && !s.session, func(s *state) { s.session, s.lease, s.mod = true, true, 1 })
	may("publishes", runs && s.session && !s.published && (!r.PublishedLate || s.key) && s.mod == 1 && !s.handle, func(s *state) {
		s.published, s.file, s.descriptor = true, true, r.Descriptor
	})
	may("acquires", runs && s.session && ready && !s.key && s.lease && s.mod == 1 && !s.handle && !s.next, func(s *state) { s.key, s.believes = true, true })
	may("sends a write", runs && s.believes && !s.writing, func(s *state) { s.writing = true })
	may("is stopped, or goes on", s.alive, func(s *state) { s.stopped = !s.stopped })
	may("closes a descriptor by mistake", runs && s.descriptor, func(s *state) { s.descriptor = false })
	may("forks", runs && s.believes && !s.child, func(s *state) { s.child, s.childBelieves, s.childsDescr = true, true, s.descriptor })
	may("its child closes what it has inherited", s.child && s.childsDescr, func(s *state) {
		s.childsDescr = false // an unlock by close needs the last descriptor: the parent's is another
	})
	may("its child ends", s.child, func(s *state) { s.child = false })
	may("is killed, or begins another program", s.alive, func(s *state) { s.alive = false })
	may("detaches", runs && s.believes && s.published && !s.handle && !s.child, func(s *state) {
		s.believes, s.handle = false, true
		s.file = s.file && r.DetachKeeps
	})
}

func (s state) othersSteps(r Rules, may may) {
	may("the directory is copied", s.file && !s.copied, func(s *state) { s.copied = true })
	may("the disk is cloned", s.file && !s.cloned, func(s *state) { s.cloned = true })
	may("the write arrives", s.writing, func(s *state) { s.writing, s.late = false, s.next })
	may("another process takes the session over", s.handle && !s.resumed, func(s *state) {
		if !s.lease || s.mod != 1 {
			s.handle, s.refused = false, true
			return
		}
		s.mod, s.resumed, s.handle = 2, true, false
	})
	may("the next one acquires", s.session && !s.lease && !s.next, func(s *state) { s.next = true })
}

func (s state) reclaimerSteps(r Rules, may may) {
	proves := func(s *state) { s.reclaimer, s.proofs = waits, s.proofs+1 }
	may("proves a death", s.reclaimer == looks && s.file && !s.locked(r), proves)
	may("takes a copy for the file", s.reclaimer == looks && s.copied && r.NoInode, proves)
	may("takes a clone for the file", s.reclaimer == looks && s.cloned && r.NoBoot, proves)
	may("the lock-delay passes", s.reclaimer == waits && (!s.writing || r.NoDelay), func(s *state) {
		if s.reclaimer = deletes; r.BareRevoke {
			s.reclaimer = revokes
		}
	})
	may("deletes the session key", s.reclaimer == deletes, func(s *state) {
		switch s.mod {
		case 2:
			s.reclaimer = removes
		default:
			s.mod, s.reclaimer = 0, revokes
		}
	})
	may("revokes", s.reclaimer == revokes, func(s *state) {
		s.lease, s.key = false, false // who has taken it over still believes
		if s.reclaimer = removes; r.UnlockedFirst {
			s.reclaimer = unlocks
		}
	})
	may("unlocks, and another one proves the death", s.reclaimer == unlocks && s.file, proves)
	may("removes the file", s.reclaimer == removes || s.reclaimer == unlocks, func(s *state) { s.file, s.reclaimer = false, finished })
}

// Explore walks every interleaving under r. It returns how many states there are, and for each thing that goes
// wrong the shortest steps that lead to it.
func Explore(r Rules) (states int, wrong map[string][]string) {
	type from struct {
		was  state
		what string
	}
	first := state{alive: true}
	came, line := map[state]from{first: {}}, []state{first}
	wrong = map[string][]string{}
	for ; len(line) > 0; line = line[1:] {
		s := line[0]
		if is := s.wrong(); is != "" {
			if wrong[is] == nil {
				for at := s; at != first; at = came[at].was {
					wrong[is] = append([]string{came[at].what}, wrong[is]...)
				}
			}
			continue
		}
		s.steps(r, func(what string, next state) {
			if _, known := came[next]; !known {
				came[next] = from{s, what}
				line = append(line, next)
			}
		})
	}
	return len(came), wrong
}
