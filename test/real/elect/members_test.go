package elect_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// lines is a log, each line of which is announced.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(b)
}

// await returns once a line has all parts.
func (l *lines) await(t *testing.T, parts ...string) {
	t.Helper()
	late := time.After(testscale.Hang)
	for {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			has := true
			for _, p := range parts {
				has = has && strings.Contains(line, p)
			}
			if has {
				return
			}
		}
		select {
		case <-l.more:
		case <-late:
			require.Fail(t, "no such line", "%v in\n%s", parts, text)
		}
	}
}

// On real members with a password and either kind of token, as the table of package lock has it in memory.
// rule: C6
func TestALeaderIsKeptWhileEveryMemberIsReplaced(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"simple", "JWT"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testLeaderWhileMembersAreReplaced(t, kind == "JWT")
		})
	}
}

func testLeaderWhileMembersAreReplaced(t *testing.T, jwt bool) {
	c := etcdtest.StartClusterWith(t, 3, etcdtest.ClusterOptions{JWT: jwt})
	c.EnableAuth(t, "pw")
	token, err := pb.NewAuthClient(c.Member(0).Conn(t)).Authenticate(t.Context(), &pb.AuthenticateRequest{Name: "root", Password: "pw"})
	require.NoError(t, err)
	require.Equal(t, jwt, strings.Count(token.Token, ".") == 2, "its tokens are of that kind")
	log := &lines{more: make(chan struct{}, 1)}
	client, err := pawl.Dial(t.Context(), pawl.Config{
		Endpoints: c.Endpoints(), Username: "root", Password: "pw", SyncEvery: 200 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(log, nil)), Session: lease.Options{TTL: time.Minute},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	leads, end := make(chan *elect.Term), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // ends with ctx
		end <- elect.Run(ctx, client, "e", elect.RunOptions{Session: lease.Options{TTL: time.Minute}}, func(work context.Context, term *elect.Term) error {
			leads <- term
			<-work.Done()
			return context.Cause(work)
		})
	}()
	term := <-leads
	for range 3 {
		m := c.ReplaceMember(t, c.Member(0))
		log.await(t, "etcd endpoints refreshed", m.Addr())
		s, err := client.NewSession(t.Context(), lease.Options{TTL: 10 * time.Second})
		require.NoError(t, err)
		require.NoError(t, s.Close(t.Context()))
		require.NoError(t, term.Err())
	}
	cancel()
	require.ErrorIs(t, <-end, context.Canceled)
}
