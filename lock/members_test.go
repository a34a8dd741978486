package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
)

// What happens to each of three members, one by one; the last is what they are then.
var membersChange = map[string]func(f *etcdfake.Cluster, i int) *etcdfake.Member{
	"replaced": func(f *etcdfake.Cluster, i int) *etcdfake.Member {
		next := f.Member([]int{3, 4, 0}[i])
		next.Join()
		f.Member(i).Leave()
		return next
	},
	"promoted": func(f *etcdfake.Cluster, i int) *etcdfake.Member {
		next := f.Member([]int{3, 4, 0}[i])
		next.SetLearner(true)
		next.Join()
		time.Sleep(time.Minute)
		next.SetLearner(false)
		time.Sleep(time.Minute)
		f.Member(i).Leave()
		return next
	},
	"restored": func(f *etcdfake.Cluster, i int) *etcdfake.Member {
		m := f.Member(i)
		m.Stop()
		m.ForgetTokens()
		time.Sleep(5 * time.Second)
		m.Heal()
		return m
	},
}

// A lock is kept while all members change one after the other, and each new member is used.
// rule: C6
func TestMembersChangeUnderALock(t *testing.T) {
	for change, f := range membersChange {
		for _, auth := range []string{"no auth", "simple", "JWT"} {
			t.Run(fmt.Sprint(change, ", ", auth), func(t *testing.T) {
				inmemory.InBubble(t, etcdfake.Options{Members: 5, JWT: auth == "JWT"}, func(kit *inmemory.Fixture) {
					w := &fixture{Fixture: kit, f: kit.Cluster}
					w.f.Member(3).Leave()
					w.f.Member(4).Leave()
					cfg := pawl.Config{SyncEvery: 10 * time.Second}
					if auth != "no auth" {
						w.f.EnableAuth("pw")
						cfg.Username, cfg.Password = "root", "pw"
					}
					s, err := w.client(cfg).Session(w.Context())
					require.NoError(w, err)
					held := w.acquire(s)
					for i := range 3 {
						m := f(w.f, i)
						time.Sleep(time.Minute)
						before := m.Counts()
						for range 6 {
							h, err := lock.New(s, "another", lock.Options{}).Acquire(w.Context())
							require.NoError(w, err)
							w.release(h)
						}
						assert.NotZero(t, m.Counts().Since(before).Sent["Txn"], "member %s is used", m.Endpoint())
						w.held(held)
					}
					w.release(held)
				})
			})
		}
	}
}
