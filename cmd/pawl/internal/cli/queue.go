package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-locks/pawl/internal/inspect"
)

// Holding describes, for people to read, who holds a queue: "ann", "ann and 2 other readers", "ann
// and 1 other, 2 of 3 slots". It returns "" if nobody does.
func Holding(q inspect.NamedQueue) string {
	holders := q.Holders()
	if len(holders) == 0 {
		return ""
	}
	p, others := holders[0], len(holders)-1
	who := Plain(Who(p))
	switch {
	case p.Mode == inspect.ModeSemaphore && others > 0:
		return fmt.Sprintf("%s and %s, %s", who, count(others, "other"), slots(q))
	case p.Mode == inspect.ModeSemaphore:
		return who + ", " + slots(q)
	case others > 0:
		return fmt.Sprintf("%s and %s", who, count(others, "other reader"))
	case p.Mode == inspect.ModeShared:
		who += " (reader)"
	}
	return who + With(q.Name, p)
}

// maxWith is how many other names of a set are listed.
const maxWith = 3

// With lists the other names that a position holds, or waits for, together with name, as in ", with
// b and c". It returns "" if there are none.
func With(name string, p inspect.Position) string {
	var others []string
	for _, other := range p.Names {
		if other != name {
			others = append(others, Plain(other))
		}
	}
	switch n := len(others); {
	case n == 0:
		return ""
	case n == 1:
		return ", with " + others[0]
	case n <= maxWith:
		return ", with " + strings.Join(others[:n-1], ", ") + " and " + others[n-1]
	default:
		return fmt.Sprintf(", with %s and %d more", strings.Join(others[:maxWith], ", "), n-maxWith)
	}
}

// Sum summarizes a queue that is not just one holder and a number of waiters: "3 readers, 1 writer
// waiting", "2 of 3 slots, 1 waiting".
func Sum(q inspect.NamedQueue) string {
	held := ""
	switch {
	case q.Kind() == inspect.KindSemaphore:
		held = slots(q)
	case !shares(q):
		return ""
	default:
		held = sides(q.Holders())
	}
	if waiting := Waiting(q); waiting != "0" {
		held += ", " + waiting + " waiting"
	}
	return held
}

// Waiting says how many wait in a queue and, if some share it, in which modes: "1 writer".
func Waiting(q inspect.NamedQueue) string {
	w := q.Waiters()
	if len(w) == 0 || !shares(q) {
		return strconv.Itoa(len(w))
	}
	return sides(w)
}

// shares reports whether any position of a queue is shared.
func shares(q inspect.NamedQueue) bool {
	for _, p := range q.Queue {
		if p.Mode == inspect.ModeShared {
			return true
		}
	}
	return false
}

// sides counts readers and others separately.
func sides(all []inspect.Position) string {
	readers := 0
	for _, p := range all {
		if p.Mode == inspect.ModeShared {
			readers++
		}
	}
	switch writers := len(all) - readers; {
	case readers == 0:
		return count(writers, "writer")
	case writers == 0:
		return count(readers, "reader")
	default:
		return count(readers, "reader") + " and " + count(writers, "writer")
	}
}

// slots counts the held slots of a semaphore.
func slots(q inspect.NamedQueue) string {
	n, limit := 0, q.Limit()
	for _, p := range q.Holders() {
		if p.HasSlot() {
			n++
		}
	}
	if limit == 0 {
		return "no slot held"
	}
	return fmt.Sprintf("%d of %s", n, count(limit, "slot"))
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Mixed says that a name is used as more than one kind. It returns "" if it is not.
func Mixed(q inspect.NamedQueue) string {
	kinds := q.Kinds()
	if len(kinds) < 2 {
		return ""
	}
	for i, k := range kinds {
		kinds[i] = map[string]string{
			inspect.KindLock: "a lock", inspect.KindElection: "an election",
		}[k]
	}
	return strings.Join(kinds, " and ") + " have this name: they queue together, and exclude each other"
}

// Token is a position's fencing token, for people to read. One that waits for a slot has none
// yet.
func Token(p inspect.Position) string {
	if !HasToken(p) {
		return "-"
	}
	return strconv.FormatInt(int64(p.Token), 10)
}

// HasToken reports whether a position's create revision is the token with which it holds, or
// will hold.
func HasToken(p inspect.Position) bool { return p.Mode != inspect.ModeSemaphore || p.HasSlot() }
