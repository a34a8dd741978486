package model

import "fmt"

// A Violation is a history that breaks a property.
type Violation struct {
	Property string
	History  []string
}

// Error is the property and the steps that led to its breach.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s, after %d steps: %q", v.Property, len(v.History), v.History)
}

// origin is how a state was first reached.
type origin struct {
	from state
	name string
}

// Explore walks every state that can be reached, shortest histories first, and
// returns how many there are, and the first violation.
func Explore(c Config) (states int, found *Violation) {
	start := c.start()
	seen := map[state]origin{start: {}}
	queue := []state{start}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		steps := c.steps(&s)
		for _, st := range steps {
			if st.bad != "" {
				return len(seen), &Violation{st.bad, append(history(seen, start, s), st.name)}
			}
			if _, ok := seen[st.to]; !ok {
				seen[st.to] = origin{s, st.name}
				queue = append(queue, st.to)
			}
		}
		if len(steps) == 0 {
			if bad := s.unfinished(c); bad != "" {
				return len(seen), &Violation{bad, history(seen, start, s)}
			}
		}
	}
	return len(seen), nil
}

func history(seen map[state]origin, start, s state) []string {
	var names []string
	for s != start {
		o := seen[s]
		names = append([]string{o.name}, names...)
		s = o.from
	}
	return names
}

// believes reports whether client i would say that it holds.
func (s *state) believes(i int, r Rules) bool {
	return s.clients[i].pc == held && (s.clients[i].valid || r.NoDeadline)
}

// broken names the property that s, reached from was, breaks; and notes the
// tokens that were held.
func (s *state) broken(was *state, r Rules) string {
	holders := 0
	for i := range s.clients {
		if s.believes(i, r) {
			holders++
		}
		me := &s.clients[i]
		if !s.believes(i, r) || was.clients[i].pc == held {
			continue // one whose deadline has passed sees it before it says anything
		}
		if s.n == 0 || s.line[0].owner() != i || s.created[0] != me.token {
			return "somebody believes to hold who is not first"
		}
		if me.token <= s.highest {
			return "a token was not greater than those before"
		}
		s.highest = me.token
	}
	if holders > 1 {
		return "two believe to hold"
	}
	return ""
}

// unfinished names what is wrong with a state in which nothing can happen.
func (s *state) unfinished(c Config) string {
	for i := range c.Clients {
		if p := s.clients[i].pc; p != done && p != dead {
			return "deadlock"
		}
	}
	for i := range int(s.n) {
		if s.clients[s.line[i].owner()].alive {
			return "an orphan key is left"
		}
	}
	return ""
}
