package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-locks/pawl/internal/inspect"
)

// Left is how much time a position's lease has left, for people to read.
func Left(leases map[int64]inspect.Lease, p inspect.Position) string {
	lease, ok := leases[p.Lease]
	switch {
	case p.Lease == 0:
		return "forever"
	case !ok:
		return "?"
	case lease.Gone:
		return "gone"
	}
	return fmt.Sprintf("%s of %s", Span(lease.Left), Span(lease.Granted))
}

// Age is how long a position has held, or waited, by its owner's clock. It is an upper bound for a
// holder that may have waited before, the age of its key, and for a candidate, the age of its session.
func Age(p inspect.Position, now time.Time) string {
	if p.Since.IsZero() {
		return "-"
	}
	age := Span(max(0, now.Sub(p.Since)))
	if p.Election || p.Holds && p.HeldSince.IsZero() {
		return "≤" + age
	}
	return age
}

// Who is a position's owner, for people to read.
func Who(p inspect.Position) string {
	switch {
	case p.Owner != "" && p.Form == inspect.Foreign: // in etcd's layout names nest
		return fmt.Sprintf("%s, who has %q", p.Owner, p.Key)
	case p.Owner != "":
		return p.Owner
	case p.Form == inspect.Foreign:
		return "a foreign key, " + strconv.Quote(p.Key)
	case len(p.Value) > 0:
		return string(p.Value)
	}
	return "lease " + LeaseHex(p.Lease)
}

// More says how much of a value is not shown.
func More(p inspect.Position) string {
	if n := p.Size - len(p.Value); n > 0 {
		return fmt.Sprintf(" and %d bytes more", n)
	}
	return ""
}
