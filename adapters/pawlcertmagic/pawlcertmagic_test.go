package pawlcertmagic_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/adapters/pawlcertmagic"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/test/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A process is one that shares the storage with the others of its cluster.
type process struct {
	*pawlcertmagic.Storage
	client *pawl.Client
}

func newProcess(t *testing.T, etcd *pawltest.Cluster) process {
	t.Helper()
	client := etcd.Client(t, pawl.Config{})
	return process{pawlcertmagic.New(client, pawlcertmagic.Options{}), client}
}

// storages runs a test with two processes.
func storages(t *testing.T, test func(t *testing.T, s, other *pawlcertmagic.Storage)) {
	t.Helper()
	etcd := pawltest.New(t)
	test(t, newProcess(t, etcd).Storage, newProcess(t, etcd).Storage)
}

// The file operations do what certmagic's interface documents, and otherwise what its
// FileStorage does.
func TestFiles(t *testing.T) {
	storages(t, func(t *testing.T, s, other *pawlcertmagic.Storage) {
		ctx := t.Context()
		_, err := s.Load(ctx, "a/b")
		assert.ErrorIs(t, err, fs.ErrNotExist)
		_, err = s.Stat(ctx, "a/b")
		assert.ErrorIs(t, err, fs.ErrNotExist)
		_, err = s.List(ctx, "a", true)
		assert.ErrorIs(t, err, fs.ErrNotExist)
		assert.False(t, s.Exists(ctx, "a"))
		assert.NoError(t, s.Delete(ctx, "a"), "it is no error that it is not there")

		before := time.Now()
		for key, value := range map[string]string{"a/b/1": "one\n\x00", "a/b/2": "", "a/c": "three", "ab/d": "four"} {
			require.NoError(t, s.Store(ctx, key, []byte("older")))
			require.NoError(t, s.Store(ctx, key, []byte(value)))
			got, err := other.Load(ctx, key)
			require.NoError(t, err)
			assert.Equal(t, value, string(got))
			info, err := other.Stat(ctx, key)
			require.NoError(t, err)
			assert.Equal(t, []any{key, int64(len(value)), true}, []any{info.Key, info.Size, info.IsTerminal})
			assert.WithinRange(t, info.Modified, before.Add(-time.Microsecond), time.Now())
		}
		info, err := s.Stat(ctx, "a/b")
		require.NoError(t, err)
		assert.False(t, info.IsTerminal, "a directory")
		assert.True(t, s.Exists(ctx, "a/b"))
		assert.False(t, s.Exists(ctx, "a/b/3"))
		_, err = s.Load(ctx, "a/b")
		assert.ErrorIs(t, err, fs.ErrNotExist, "a directory has no contents")

		list := func(dir string, recursive bool) []string {
			names, err := other.List(ctx, dir, recursive)
			require.NoError(t, err)
			return names
		}
		assert.Equal(t, []string{"a/b", "a/c"}, list("a", false))
		assert.Equal(t, []string{"a/b", "a/b/1", "a/b/2", "a/c"}, list("a", true))
		assert.Equal(t, list("a", true), list("/a/", true))
		assert.Equal(t, []string{"a", "ab"}, list("", false))

		require.NoError(t, s.Delete(ctx, "a/b"))
		assert.Equal(t, []string{"a/c"}, list("a", true))
		require.NoError(t, s.Delete(ctx, "a/c"))
		assert.False(t, other.Exists(ctx, "a"))
		assert.True(t, other.Exists(ctx, "ab/d"), "another directory, though its name begins so")
		require.NoError(t, s.Delete(ctx, ""))
		assert.False(t, other.Exists(ctx, "ab/d"))
	})
}

func TestDeletingADirectoryOfManyFiles(t *testing.T) {
	etcd := pawltest.New(t)
	s := newProcess(t, etcd)
	for i := range 300 {
		require.NoError(t, s.Store(t.Context(), fmt.Sprint("ocsp/", i), nil))
	}
	require.NoError(t, s.Delete(t.Context(), "ocsp"))
	assert.False(t, s.Exists(t.Context(), "ocsp"))
}

func TestLocks(t *testing.T) {
	storages(t, func(t *testing.T, s, other *pawlcertmagic.Storage) {
		ctx := t.Context()
		require.NoError(t, s.Lock(ctx, "x"))
		for _, o := range []*pawlcertmagic.Storage{s, other} { // the same process, too
			ok, err := o.TryLock(ctx, "x")
			assert.False(t, ok)
			assert.NoError(t, err)
			short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			assert.ErrorIs(t, o.Lock(short, "x"), context.DeadlineExceeded)
			cancel()
		}
		var inside atomic.Int64
		done := make(chan error)
		for i := range 8 {
			o := []*pawlcertmagic.Storage{s, other}[i%2]
			go func() { // ends with its turn
				err := o.Lock(ctx, "x")
				if inside.Add(1) != 1 {
					err = errors.Join(err, errors.New("two at once"))
				}
				inside.Add(-1)
				done <- errors.Join(err, o.Unlock(ctx, "x"))
			}()
		}
		require.NoError(t, s.Unlock(ctx, "x"))
		for range 8 {
			assert.NoError(t, <-done)
		}
		assert.Error(t, s.Unlock(ctx, "x"), "nobody holds it")
		ok, err := other.TryLock(ctx, "x")
		assert.True(t, ok)
		assert.NoError(t, err)
		require.NoError(t, other.Unlock(ctx, "x"))
	})
}

// A store or a deletion under a lost lock is refused, and a new lock of the same process waits
// until the old one is unlocked.
func TestWhatIsStoredAfterALossIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		etcd := pawltest.New(t)
		one, other := newProcess(t, etcd), newProcess(t, etcd)
		const name, key = "issue_cert_example.com", "certificates/ca/example.com/example.com.crt"
		require.NoError(t, one.Lock(ctx, name))
		require.NoError(t, one.Store(ctx, key, []byte("first")))
		etcd.CutClient(one.client)
		require.NoError(t, other.Lock(ctx, name)) // when the lease has expired
		require.NoError(t, other.Store(ctx, key, []byte("second")))
		etcd.HealClient(one.client)
		time.Sleep(time.Minute) // it reaches etcd again

		assert.ErrorIs(t, one.Store(ctx, key, []byte("late")), kv.ErrFenced)
		assert.ErrorIs(t, one.Delete(ctx, key), kv.ErrFenced, "as certmagic does when a Store fails")
		assert.NoError(t, one.Store(ctx, "certificates/ca/example.org/example.org.crt", nil), "it is another's")
		assert.Error(t, one.RenewLockLease(ctx, name, time.Hour), "the other has it")
		again := make(chan error, 1)
		go func() { again <- one.Lock(ctx, name) }() // ends when both have unlocked
		require.NoError(t, other.Unlock(ctx, name))
		synctest.Wait()
		assert.Empty(t, again, "the one of this process that lost it still works")

		require.NoError(t, one.RenewLockLease(ctx, name, time.Hour), "it tries again")
		require.NoError(t, one.RenewLockLease(ctx, name, time.Hour))
		require.NoError(t, one.Store(ctx, key, []byte("third")))
		require.NoError(t, one.Unlock(ctx, name))
		require.NoError(t, <-again)
		require.NoError(t, one.Unlock(ctx, name))
		got, err := other.Load(ctx, key)
		require.NoError(t, err)
		assert.Equal(t, "third", string(got))
	})
}

func TestWhichKeysALockGuards(t *testing.T) {
	for _, c := range []struct {
		lock, key     string
		store, remove bool
	}{
		{"issue_cert_*.example.com", "certificates/ca/wildcard_.example.com/wildcard_.example.com.key", true, true},
		{"issue_cert_example.com", "certificates/ca/sub.example.com/sub.example.com.key", false, false},
		{"register_acme_account_a@example.com", "acme/ca/users/a@example.com/a.json", true, true},
		{"register_acme_account", "certificates/ca/example.com/example.com.key", false, false},
		{"ari_x", "certificates/ca/example.com/example.com.json", true, true},
		{"ari_x", "certificates/ca/example.com/example.com.key", false, false},
		{"storage_clean", "last_clean.json", true, true},
		{"storage_clean", "ocsp/x", false, true},
		{"other", "plugin/other/file", true, true},
		{"other", "plugin/another/file", false, false},
	} {
		assert.Equal(t, c.store, pawlcertmagic.Guards(c.lock, c.key, false), c)
		assert.Equal(t, c.remove, pawlcertmagic.Guards(c.lock, c.key, true), c)
	}
}

// issuer signs by itself, after step.
type issuer struct {
	t      *testing.T
	issued *atomic.Int64
	step   func()
}

func (i issuer) IssuerKey() string { return "ca" }

func (i issuer) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	n := i.issued.Add(1)
	i.step()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(n), DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 3, 0)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, csr.PublicKey, key)
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// magic is certmagic itself on a process's storage.
func magic(t *testing.T, p process, i certmagic.Issuer) *certmagic.Config {
	t.Helper()
	var cfg *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil }})
	t.Cleanup(cache.Stop)
	cfg = certmagic.New(cache, certmagic.Config{Storage: p.Storage, Issuers: []certmagic.Issuer{i}})
	return cfg
}

// If five processes want a certificate at once, one orders it.
func TestCertmagicOrdersACertificateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := pawltest.New(t)
		var issued atomic.Int64
		done := make(chan error)
		for range 5 {
			cfg := magic(t, newProcess(t, etcd), issuer{t, &issued, func() { time.Sleep(time.Minute) }}) // longer than the lease
			go func() { done <- cfg.ObtainCertSync(t.Context(), "example.com") }()
		}
		for range 5 {
			assert.NoError(t, <-done)
		}
		assert.EqualValues(t, 1, issued.Load())

		cfg := magic(t, newProcess(t, etcd), issuer{t, &issued, func() {}})
		require.NoError(t, cfg.RenewCertSync(t.Context(), "example.com", true))
		assert.EqualValues(t, 2, issued.Load())
		require.NoError(t, certmagic.CleanStorage(t.Context(), cfg.Storage, certmagic.CleanStorageOptions{OCSPStaples: true, ExpiredCerts: true}))
		assert.True(t, cfg.Storage.Exists(t.Context(), "certificates/ca/example.com/example.com.crt"))
	})
}

// A process that loses its lock while it orders tries again, and finds the certificate of the
// other one instead of replacing it.
func TestCertmagicDoesNotReplaceWhatAnotherStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		etcd := pawltest.New(t)
		one, other := newProcess(t, etcd), newProcess(t, etcd)
		var issued atomic.Int64
		theirs := magic(t, other, issuer{t, &issued, func() {}})
		cut := false
		mine := magic(t, one, issuer{t, &issued, func() {
			if !cut {
				cut = true
				etcd.CutClient(one.client)
				assert.NoError(t, theirs.ObtainCertSync(ctx, "example.com"))
				etcd.HealClient(one.client)
			}
		}})
		require.NoError(t, mine.ObtainCertAsync(ctx, "example.com"))
		assert.EqualValues(t, 2, issued.Load())
		got, err := one.Load(ctx, "certificates/ca/example.com/example.com.crt")
		require.NoError(t, err)
		block, _ := pem.Decode(got)
		cert, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		assert.EqualValues(t, 2, cert.SerialNumber.Int64(), "the other's")
		key, err := one.Load(ctx, "certificates/ca/example.com/example.com.key")
		require.NoError(t, err)
		private, err := certmagic.PEMDecodePrivateKey(key)
		require.NoError(t, err)
		assert.Equal(t, private.Public(), cert.PublicKey, "of one order")
	})
}

func ExampleNew() {
	t := exampletb.Begin()
	defer t.End()
	client := pawltest.New(t).Client(t, pawl.Config{}) // in a program, pawl.Dial

	certmagic.Default.Storage = pawlcertmagic.New(client, pawlcertmagic.Options{})
	fmt.Println(certmagic.Default.Storage)
	// Output: etcd:certmagic/
}
