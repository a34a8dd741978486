package lock_test

import (
	"crypto/tls"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/pki"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/watch"
)

// swallow makes all existing connections swallow what is sent, logins included. New connections are
// served.
func (w *fixture) swallow() {
	w.f.ForgetTokens()
	for _, m := range w.f.Members() {
		m.Swallow()
	}
}

// inSecureBubble is inBubbleOf with TLS, or with a password.
func inSecureBubble(t *testing.T, members int, security string, f func(w *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		o, w := etcdfake.Options{Members: members}, &fixture{}
		if security == "TLS" {
			authority := pki.New(t)
			o.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Pair("member.test")}}
			w.secure.TLS = authority.Client("")
			w.secure.TLS.ServerName = "member.test"
		}
		w.Fixture = inmemory.New(t, o)
		w.f = w.Cluster
		if security == "password" {
			w.f.EnableAuth("pw")
			w.secure.Username, w.secure.Password = "root", "pw"
		}
		w.spare = w.client(pawl.Config{})
		f(w)
	})
}

// rule: C4
func TestConnectionsThatSwallowWhatIsSentDelayALockForASecondAtMost(t *testing.T) {
	for _, members := range []int{1, 3} {
		for _, c := range []struct {
			name string
			f    func(w *fixture)
		}{
			{"request", func(w *fixture) {
				s := w.session()
				w.swallow()
				start := time.Now()
				w.release(w.acquire(s))
				assert.Less(w, time.Since(start), time.Second)
			}},
			{"first use", func(w *fixture) {
				c := w.client(pawl.Config{})
				w.swallow()
				start := time.Now()
				s, err := c.Session(w.Context())
				require.NoError(w, err)
				w.release(w.acquire(s))
				assert.Less(w, time.Since(start), time.Second)
			}},
			// The waiter sends nothing; its session's renewals and its reads do.
			{"waiter", func(w *fixture) {
				h := w.acquire(w.session())
				a := w.waiting(w.session())
				w.swallow()
				time.Sleep(10 * time.Second)
				w.release(h)
				start := time.Now()
				w.release(a.won())
				assert.Less(w, time.Since(start), time.Second)
			}},
			{"holder", func(w *fixture) {
				h := w.acquire(w.session())
				time.Sleep(5 * time.Second) // it is watched
				w.swallow()
				time.Sleep(time.Minute)
				w.held(h)
				w.release(h)
			}},
			// A watch sends nothing itself either, but its stream is probed when it is silent.
			{"watch", func(w *fixture) {
				events := make(chan time.Time, 1)
				c := w.client(pawl.Config{})
				go func() {
					for _, err := range c.Watch(w.Context(), "seen", watch.Options{}) {
						if err == nil {
							events <- time.Now()
						}
					}
				}()
				synctest.Wait()
				w.swallow()
				w.f.Put("seen", "at once", 0)
				start := time.Now()
				assert.Less(w, (<-events).Sub(start), 15*time.Second)
				w.f.Put("seen", "later", 0)
				start = time.Now()
				assert.Less(w, (<-events).Sub(start), time.Second)
			}},
		} {
			for _, security := range []string{"nothing", "TLS", "password"} {
				t.Run(fmt.Sprint(c.name, " with ", members, " members and ", security), func(t *testing.T) {
					inSecureBubble(t, members, security, c.f)
				})
			}
		}
	}
}

// A member that freezes under a running client keeps its connections, and takes new ones.
// rule: C9
func TestAFrozenMemberDelaysALockLittle(t *testing.T) {
	const election = 1200 * time.Millisecond
	for frozen := range 3 {
		// A try is left for another member after half a second, and one step after that member's answer.
		most := 550 * time.Millisecond
		if frozen == 0 { // it leads
			most = election + 1500*time.Millisecond
		}
		t.Run(fmt.Sprint("member ", frozen), func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				s := w.session()
				held, err := lock.New(s, "held meanwhile", lock.Options{}).Acquire(w.Context())
				require.NoError(w, err)
				w.f.Member(frozen).Halt()
				for range 5 {
					start := time.Now()
					w.release(w.acquire(s))
					assert.LessOrEqual(w, time.Since(start), most)
				}
				time.Sleep(time.Minute)
				require.NoError(w, held.Err())
			})
		})
	}
}
