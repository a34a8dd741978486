package hold

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/fencing"
)

// tenureOf is what a command's environment says of a lock or a term.
type tenureOf interface {
	Key() string
	Token() fencing.Token
	Deadline() time.Time
}

// environ is our environment with the lock's variables, lease being in hex. They replace inherited
// ones, so that a nested command sees the innermost lock.
func environ(name string, t tenureOf, lease string) []string {
	ours := []string{
		"PAWL_LOCK=" + name,
		"PAWL_KEY=" + t.Key(),
		"PAWL_TOKEN=" + strconv.FormatInt(int64(t.Token()), 10),
		"PAWL_LEASE=" + lease,
		"PAWL_DEADLINE=" + t.Deadline().Format(time.RFC3339Nano),
	}
	return replace(os.Environ(), ours)
}

// replace returns env without the variables of ours, and then ours.
func replace(env, ours []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(ours, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	})
	return append(env, ours...)
}
