package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// VersionFault returns what is wrong with a server of this version (F13), or "" if nothing is known.
func VersionFault(version string) string {
	v, pre, ok := parseVersion(version)
	switch {
	case !ok:
		return "the version cannot be read, so it is not known whether locks are safe on it"
	case before(v, [3]int{3, 4, 0}):
		return "older than 3.4, which is not supported: locks are not safe on it"
	case older(v, pre, [3]int{3, 5, 28}),
		v[0] == 3 && v[1] == 6 && older(v, pre, [3]int{3, 6, 9}),
		v == [3]int{3, 7, 0} && pre:
		return "has known bugs that can break locks (stale reads, renewals of revoked leases, lost events): use 3.5.28, 3.6.9, 3.7.0 or later"
	}
	return ""
}

// holes are what users that etcd authenticates may do beyond their permissions, and the first releases that
// prevent it.
var holes = []struct {
	advisory, what string
	fixed          [][3]int
}{
	{"GHSA-xg4h-6gfc-h4m8", "a user who may read one key may watch every key after it", [][3]int{{3, 5, 33}, {3, 6, 14}, {3, 7, 1}}},
	{"GHSA-x35m-3gp4-4fh5", "a put within a transaction shows values, and uses leases, that the user has no permission for", [][3]int{{3, 5, 30}, {3, 6, 11}, {3, 7, 0}}},
}

// SecurityFault returns which users' permissions a server of this version does not enforce, or "" if none
// is known. It has nothing to do with locks.
func SecurityFault(version string) string {
	v, pre, ok := parseVersion(version)
	if !ok {
		return ""
	}
	var all []string
	for _, h := range holes {
		for i, fixed := range h.fixed {
			if i == 0 && before(v, [3]int{fixed[0], fixed[1]}) || v[0] == fixed[0] && v[1] == fixed[1] && older(v, pre, fixed) {
				all = append(all, fmt.Sprintf("%s (%s)", h.what, h.advisory))
			}
		}
	}
	return strings.Join(all, "; ")
}

// Restored reports whether the cluster was restored from a backup, as far as a member's status shows it.
// Every revision has an entry in raft's log; a restored cluster begins a new log, at the revision of the
// backup or above. The log may have caught up since.
func Restored(s *pb.StatusResponse) bool { return s.RaftIndex < uint64(s.Header.GetRevision()) }

// TakesNested reports whether transactions within transactions are safe. All members must report the
// same minor version of etcd, and it must check the permissions inside of them. The versions of
// VersionFault do not. A member that has not answered yet, or not since it failed, has not reported.
func (c *Cluster) TakesNested() bool {
	var all int64
	for _, m := range c.list() {
		as := m.nests.Load()
		if as == 0 || !m.checked.Load() || all != 0 && as != all {
			return false
		}
		all = as
	}
	return true
}

// nestsAs returns a number for the minor version of a server, or 0 if it does not accept
// transactions within transactions.
func nestsAs(version string) int64 {
	if VersionFault(version) != "" {
		return 0
	}
	v, _, _ := parseVersion(version)
	return int64(v[0])<<32 | int64(v[1])
}

// parseVersion parses "3.6.0-rc.1+meta"; pre reports a pre-release.
func parseVersion(s string) (v [3]int, pre, ok bool) {
	s, _, _ = strings.Cut(s, "+")
	s, _, pre = strings.Cut(s, "-")
	parts := strings.Split(s, ".")
	if len(parts) != len(v) {
		return v, pre, false
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			return v, pre, false
		}
		v[i] = n
	}
	return v, pre, true
}

// older reports whether v comes before the release b, as the pre-releases of b do.
func older(v [3]int, pre bool, b [3]int) bool { return before(v, b) || pre && v == b }

func before(a, b [3]int) bool { return slices.Compare(a[:], b[:]) < 0 }
