package hold

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/fencing"
)

// A lockOrTerm has what a command's environment contains of a lock or a term.
type lockOrTerm interface {
	Token() fencing.Token
	Deadline() time.Time
}

// variables are all variables that a command may get.
var variables = []string{
	"PAWL_LOCK", "PAWL_LOCKS", "PAWL_KEY", "PAWL_KEYS", "PAWL_MODE", "PAWL_SLOT", "PAWL_TOKEN", "PAWL_LEASE", "PAWL_DEADLINE",
}

// environ is our environment with the variables of what is held, lease being in hex. They
// replace inherited ones, so that a nested command sees the innermost lock.
func environ(names, keys []string, t lockOrTerm, lease string, more ...string) []string {
	ours := []string{
		"PAWL_TOKEN=" + strconv.FormatInt(int64(t.Token()), 10),
		"PAWL_LEASE=" + lease,
		"PAWL_DEADLINE=" + t.Deadline().Format(time.RFC3339Nano),
	}
	if len(names) == 1 {
		ours = append(ours, "PAWL_LOCK="+names[0], "PAWL_KEY="+keys[0])
	} else {
		ours = append(ours, "PAWL_LOCKS="+strings.Join(names, "\n"), "PAWL_KEYS="+strings.Join(keys, "\n"))
	}
	return replace(os.Environ(), append(ours, more...))
}

// replace returns env without variables, and then ours.
func replace(env, ours []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(variables, name)
	})
	return append(env, ours...)
}
