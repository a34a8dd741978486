package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/shard"
)

// Resting counts the shards that have no owner on purpose.
func Resting(t shard.Table) (n int) {
	for _, s := range t.Shards {
		if s.Rest != (shard.Rest{}) {
			n++
		}
	}
	return n
}

// RestOf says until when a shard rests, and why.
func RestOf(r shard.Rest) string {
	why := "it failed on several workers"
	if r.Kills {
		why = "workers died with it"
	}
	return fmt.Sprintf("rests until %s: %s", r.Until.Format(time.TimeOnly), why)
}

// SharedOut counts the shards that nobody has and that do not rest, and those for which somebody waits.
func SharedOut(t shard.Table) (unowned, moving int) {
	for _, s := range t.Shards {
		if s.Lease == 0 && s.Rest == (shard.Rest{}) { // or the first key is no worker's
			unowned++
		}
		if s.Next != 0 {
			moving++
		}
	}
	return unowned, moving
}

// HeldBy returns, for each lease, the shards that it has, as ranges: "0-7,12".
func HeldBy(t shard.Table) map[int64]string {
	held := map[int64]string{}
	for from := 0; from < len(t.Shards); {
		owner, to := t.Shards[from], from+1
		for to < len(t.Shards) && t.Shards[to].Lease == owner.Lease {
			to++
		}
		if owner.Lease != 0 {
			span := strconv.Itoa(from)
			if to-from > 1 {
				span += "-" + strconv.Itoa(to-1)
			}
			if held[owner.Lease] != "" {
				span = "," + span
			}
			held[owner.Lease] += span
		}
		from = to
	}
	return held
}

// Particular is what is particular about a worker of shards, or "".
func Particular(m shard.Member) string {
	var all []string
	for _, s := range []struct {
		is   bool
		what string
	}{{m.Plans, "plans"}, {m.Leaving, "leaves"}, {m.Drained, "drained"}, {m.Sick, "sick"}, {m.Trial, "on trial"}} {
		if s.is {
			all = append(all, s.what)
		}
	}
	if !m.HeldUntil.IsZero() {
		all = append(all, fmt.Sprintf("gets nothing until %s: it died repeatedly", m.HeldUntil.Format(time.TimeOnly)))
	}
	if m.Cannot > 0 {
		all = append(all, fmt.Sprintf("cannot take %d", m.Cannot))
	}
	if m.Wished != m.Held && !m.Leaving && !m.Drained {
		all = append(all, fmt.Sprintf("is wished %d", m.Wished))
	}
	return strings.Join(all, ", ")
}

// Loads are the loads of the workers, by lease, as they are shown, or nil if none measures any.
func Loads(t shard.Table) map[int64]string {
	sum, weight := 0.0, 0
	for _, m := range t.Members {
		if m.Measured > 0 {
			sum, weight = sum+m.Load, weight+max(m.Weight, 0)
		}
	}
	if !Measures(t) {
		return nil
	}
	all := map[int64]string{}
	for _, m := range t.Members {
		all[m.Lease] = "-"
		if m.Measured > 0 {
			all[m.Lease] = LoadText(m.Load)
			if mean := sum / float64(max(weight, 1)) * float64(m.Weight); mean > 0 {
				all[m.Lease] += fmt.Sprintf(" (%.0f %%)", 100*m.Load/mean)
			}
		}
	}
	return all
}

// Measures reports whether any worker measures loads.
func Measures(t shard.Table) bool {
	return slices.ContainsFunc(t.Members, func(m shard.Member) bool { return m.Measured > 0 })
}

// LoadText is a load to three digits, which is how exact it is.
func LoadText(load float64) string {
	text := strconv.FormatFloat(load, 'g', 3, 64)
	if rounded, err := strconv.ParseFloat(text, 64); err == nil && rounded >= 1000 && rounded < 1e12 {
		return strconv.FormatFloat(rounded, 'f', 0, 64)
	}
	return text
}
