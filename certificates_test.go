package pawl_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/pki"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lock"
)

// secured is a client whose one member speaks TLS, with files that may change.
type secured struct {
	*testing.T
	front  *pki.Front
	files  *pki.Dir
	old    *pki.Authority // of both sides at first
	log    *bytes.Buffer
	client *pawl.Client
}

const member = "one.test"

func inSecured(t *testing.T, f func(s *secured)) {
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{})
		t.Cleanup(fake.Close)
		s := &secured{T: t, files: pki.NewDir(t), old: pki.New(t), log: new(bytes.Buffer)}
		s.front = pki.NewFront(t, func(ctx context.Context) (net.Conn, error) { return fake.Dial(ctx, fake.Endpoints()[0]) })
		s.front.Show(s.old.Pair(member), s.old)
		s.files.Trust(s.old)
		s.files.Show(s.old, "client.test")
		var err error
		s.client, err = pawl.Dial(t.Context(), pawl.Config{
			Endpoints: []string{member + ":2379"}, TLSFiles: pawl.TLSFiles{CA: s.files.CA, Cert: s.files.Cert, Key: s.files.Key},
			DialOptions: []grpc.DialOption{grpc.WithContextDialer(s.front.InMemory())}, Logger: slog.New(slog.NewTextHandler(s.log, nil)),
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.client.Close() })
		f(s)
	})
}

// reconnect makes a request on a new connection.
func (s *secured) reconnect() error {
	s.front.Cut()
	synctest.Wait()
	_, err := s.client.KV().Txn(s.Context(), kv.Txn{Then: []kv.Op{kv.Put("k", []byte("v"))}})
	return err
}

// Each file is rotated, first on either side, while a lock is held, and the lock survives.
// rule: C3
func TestALockOutlivesTheRotationOfEachFile(t *testing.T) {
	inSecured(t, func(s *secured) {
		session, err := s.client.Session(s.Context())
		require.NoError(s, err)
		held, err := lock.New(session, "job", lock.Options{}).Acquire(s.Context())
		require.NoError(s, err)
		young := pki.New(s)
		for name, rotate := range map[string]func(){
			"the CA, the client first":          func() { s.files.Trust(young); s.front.Show(young.Pair(member), s.old) },
			"the CA, the server first":          func() { s.front.Show(s.old.Pair(member), s.old); sleep(time.Second); s.files.Trust(s.old) },
			"the certificate, the client first": func() { s.files.Show(young, "client.test"); s.front.Show(s.old.Pair(member), young) },
			"the certificate, the server first": func() {
				s.front.Show(s.old.Pair(member), s.old)
				sleep(time.Second)
				s.files.Show(s.old, "client.test")
			},
		} {
			s.files.Trust(s.old)
			s.files.Show(s.old, "client.test")
			s.front.Show(s.old.Pair(member), s.old)
			rotate()
			require.NoError(s, s.reconnect(), name)
			sleep(time.Minute)
			require.NoError(s, held.Err(), name)
		}
	})
}

// A broken file does not end a lock, and a repaired file is used.
// rule: C3
func TestALockOutlivesBrokenFiles(t *testing.T) {
	inSecured(t, func(s *secured) {
		session, err := s.client.Session(s.Context())
		require.NoError(s, err)
		held, err := lock.New(session, "job", lock.Options{}).Acquire(s.Context())
		require.NoError(s, err)
		s.files.Break()
		for range 3 {
			require.NoError(s, s.reconnect())
			sleep(time.Minute)
		}
		require.NoError(s, held.Err())
		assert.Equal(s, 2, strings.Count(s.log.String(), "the files for TLS cannot be used"), s.log)
		assert.Contains(s, s.log.String(), "does not match")
		assert.Contains(s, s.log.String(), "holds no certificate")

		young := pki.New(s)
		s.files.Trust(young)
		s.files.Show(young, "client.test")
		s.front.Show(young.Pair(member), young)
		require.NoError(s, s.reconnect())
		sleep(time.Minute)
		require.NoError(s, held.Err())
	})
}

// Errors say that a certificate was refused, and the refusals end as soon as the files are right.
// rule: C3
func TestErrorsNameWhatIsWrongWithACertificate(t *testing.T) {
	young := func(s *secured) *pki.Authority { return pki.New(s) }
	for name, c := range map[string]struct {
		refuse func(s *secured, young *pki.Authority)
		mend   func(s *secured, young *pki.Authority)
		says   string
	}{
		"the member's": {
			func(s *secured, a *pki.Authority) { s.front.Show(a.Pair(member), s.old) },
			func(s *secured, a *pki.Authority) { s.files.Trust(a) }, "x509: certificate signed by unknown authority",
		},
		"the member's name": {
			func(s *secured, a *pki.Authority) { s.front.Show(s.old.Pair("other.test"), s.old) },
			func(s *secured, a *pki.Authority) { s.front.Show(s.old.Pair(member), s.old) }, "x509: certificate is valid for other.test",
		},
		"the client's": {
			func(s *secured, a *pki.Authority) { s.front.Show(s.old.Pair(member), a) },
			func(s *secured, a *pki.Authority) { s.files.Show(a, "client.test") }, "remote error: tls: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSecured(t, func(s *secured) {
				a := young(s)
				c.refuse(s, a)
				synctest.Wait()
				retrying := make(chan error, 1000)
				ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute)
				defer cancel()
				ran := make(chan error, 1)
				go func() { // ends with ctx
					ran <- elect.Run(ctx, s.client, "job", elect.RunOptions{Notify: func(ev elect.Event) {
						if ev.Kind == elect.Retrying {
							retrying <- ev.Err
						}
					}}, func(context.Context, *elect.Term) error { return nil })
				}()
				require.ErrorContains(s, <-retrying, c.says)
				_, err := lock.New(s.client, "job", lock.Options{}).TryAcquire(s.Context())
				require.ErrorContains(s, err, c.says)
				short, end := context.WithTimeout(s.Context(), 5*time.Second)
				defer end()
				_, err = lock.New(s.client, "job", lock.Options{}).Acquire(short)
				require.ErrorContains(s, err, c.says)
				c.mend(s, a)
				require.NoError(s, <-ran)
			})
		})
	}
}
