package repo_test

import (
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// quoted are the prefixes that a denial names.
var quoted = regexp.MustCompile(`from "([^"]*)"`)

// If the permissions that a denial's error names are granted, for a session and for a name, they are
// enough.
func TestARoleWithWhatADenialNamesCanLock(t *testing.T) {
	for _, name := range []string{"a", "a/b", "a b%"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := etcdfake.New(etcdfake.Options{Members: 3})
				t.Cleanup(fake.Close)
				fake.EnableAuth("root")
				fake.SetUser("u", "p")
				c := dial(t, fake, pawl.Config{Username: "u", Password: "p", Namespace: "ns/"})

				_, err := c.NewSession(t.Context(), lease.Options{})
				require.ErrorContains(t, err, "permission denied")
				forSession := quoted.FindAllStringSubmatch(err.Error(), -1)
				require.Len(t, forSession, 3, "%v", err)
				access := []etcdfake.Access{{Prefix: forSession[0][1], Read: true, Write: true}}
				fake.SetUser("u", "p", access...)

				s, err := c.NewSession(t.Context(), lease.Options{})
				require.NoError(t, err)
				_, err = lock.New(s, name, lock.Options{}).Acquire(t.Context())
				require.ErrorContains(t, err, "permission denied")
				forName := quoted.FindAllStringSubmatch(err.Error(), -1)
				require.Len(t, forName, 2, "%v", err)
				assert.Equal(t, forSession[0][1], forName[0][1])
				if name == "a/b" {
					assert.Equal(t, forSession[2][1], forName[1][1], "the session's example is that name's")
				}
				access = append(access, etcdfake.Access{Prefix: forName[1][1], Read: true, Write: true})
				fake.SetUser("u", "p", access...)

				h, err := lock.New(s, name, lock.Options{}).Acquire(t.Context())
				require.NoError(t, err)
				require.NoError(t, h.Release(t.Context()))
				require.NoError(t, s.Close(t.Context()))
			})
		})
	}
}
