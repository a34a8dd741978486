package repo_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

// witness keeps the text of all that is logged, on every level, and of all events.
type witness struct {
	mu     sync.Mutex
	text   strings.Builder
	tokens []string // issued by the server
}

func (w *witness) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *witness) Observe(_ context.Context, ev observe.Event) { fmt.Fprintf(w, "%T %+v\n", ev, ev) }

func (w *witness) seeTokens(_ etcdfake.Request, answer etcdapi.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens = append(w.tokens, answer.(*pb.AuthenticateResponse).Token)
}

// The password of the client, and one that it had before.
const (
	password    = "Quite-5ecret!"
	newPassword = "An0ther-secret!"
	value       = "value-that-is-nobodys-business"
)

// Hazard O5: whatever goes wrong, neither the log, on any level, nor an event shows a password, an auth
// token, or a value.
func TestNeitherLogNorEventsShowPasswordsTokensOrValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 3, TokenTTL: 5 * time.Second})
		t.Cleanup(fake.Close)
		fake.EnableAuth("root-password")
		fake.SetUser("jobs", password, etcdfake.Access{Prefix: "", Read: true, Write: true})
		w := &witness{}
		fake.Inject(etcdfake.Rule{Method: "Authenticate", Edit: w.seeTokens})
		c := dial(t, fake, pawl.Config{
			Username: "jobs", Password: password, Observer: w, SyncEvery: 10 * time.Second,
			Logger: slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		errs := faults(t, fake, c)
		require.NoError(t, c.Close())
		require.NotEmpty(t, w.tokens)
		require.Greater(t, len(errs), 3)
		all := w.text.String() + strings.Join(errs, "\n")
		for _, secret := range append(w.tokens, password, newPassword, value) {
			require.NotEmpty(t, secret)
			assert.NotContains(t, all, secret)
		}
		for _, logged := range []string{"session begins", "session ended", "failing", "in jeopardy", "observe.LockLost", "observe.SessionLost", "observe.MemberSwitched"} {
			assert.Contains(t, all, logged)
		}
	})
}

// faults has locks and sessions lost in many ways, and returns the errors.
func faults(t *testing.T, fake *etcdfake.Cluster, c *pawl.Client) (errs []string) {
	note := func(err error) {
		if err != nil {
			errs = append(errs, err.Error())
		}
	}
	hold := func() (*pawl.Session, *lock.Held) {
		s, err := c.NewSession(t.Context(), lease.Options{TTL: 10 * time.Second})
		require.NoError(t, err)
		h, err := lock.New(s, "n", lock.Options{}).Acquire(t.Context())
		require.NoError(t, err)
		return s, h
	}
	s, h := hold()
	_, err := c.KV().Txn(t.Context(), kv.Txn{Then: []kv.Op{kv.Put("k", []byte(value))}})
	require.NoError(t, err)
	term, err := elect.New(s, "e", elect.Options{}).Campaign(t.Context(), []byte(value))
	require.NoError(t, err)
	require.NoError(t, term.Proclaim(t.Context(), []byte(value)))
	fake.ForgetTokens()
	sleep(20 * time.Second)
	require.NoError(t, h.Err(), "a new token was fetched")
	fake.Put(term.Key(), value, 0)
	fake.Delete(h.Key())
	sleep(time.Second)
	note(h.Err())
	note(term.Err())

	_, h = hold()
	fake.SetUser("jobs", newPassword, etcdfake.Access{Prefix: "", Read: true, Write: true})
	sleep(time.Minute) // the old password is refused
	note(h.Err())
	_, err = c.NewSession(t.Context(), lease.Options{})
	note(err)
	fake.SetUser("jobs", password, etcdfake.Access{Prefix: "other", Read: true, Write: true})
	_, err = c.NewSession(t.Context(), lease.Options{})
	note(err)
	fake.SetUser("jobs", password, etcdfake.Access{Prefix: "", Read: true, Write: true})
	sleep(time.Minute) // a password that was refused is not tried again at once

	_, h = hold()
	fake.BlackHole()
	sleep(time.Minute)
	note(h.Err())
	fake.Heal()
	sleep(10 * time.Second)
	return errs
}
