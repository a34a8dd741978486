package etcdtest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

func TestMain(m *testing.M) {
	testscale.SideBySide(12) // most wait for elections
	goleak.VerifyTestMain(m)
}

func write(t *testing.T, s *Server, key string) error {
	_, err := pb.NewKVClient(s.Conn(t)).Put(t.Context(), &pb.PutRequest{Key: []byte(key)})
	return err
}

func TestAServerIsReadyWhenItHasStarted(t *testing.T) {
	t.Parallel()
	s := Start(t)
	require.NoError(t, write(t, s, "k"))
}

func TestRestartKeepsAddressAndData(t *testing.T) {
	t.Parallel()
	s := Start(t)
	before := s.Endpoints()
	require.NoError(t, write(t, s, "k"))
	s.Stop()
	_, err := net.Dial("tcp", s.Addr())
	require.Error(t, err, "a stopped server refuses connections")
	require.NoError(t, s.Restart())
	assert.Equal(t, before, s.Endpoints())
	r, err := pb.NewKVClient(s.Conn(t)).Range(t.Context(), &pb.RangeRequest{Key: []byte("k")})
	require.NoError(t, err)
	assert.Len(t, r.Kvs, 1)
}

// A process that starts has copies of this one's listeners and locked files for a moment.
func TestRestartWhileProcessesAreStarted(t *testing.T) {
	t.Parallel()
	var over atomic.Bool
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for !over.Load() {
				_ = exec.Command("true").Run()
			}
		})
	}
	s := Start(t)
	for range 5 {
		s.Stop()
		_, err := net.Dial("tcp", s.Addr())
		assert.Error(t, err)
		require.NoError(t, s.Restart())
	}
	over.Store(true)
	all.Wait()
}

func TestStopDoesNotWaitForOpenStreams(t *testing.T) {
	t.Parallel()
	s := Start(t)
	w, err := pb.NewWatchClient(s.Conn(t)).Watch(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}}))
	_, err = w.Recv()
	require.NoError(t, err)
	s.Stop() // or it would never return
	_, err = w.Recv()
	assert.Error(t, err)
}

func TestManyServersAtOnceHavePortsOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 4 {
		s := Start(t)
		assert.False(t, seen[s.Addr()])
		seen[s.Addr()] = true
		require.NoError(t, write(t, s, "k"))
	}
}

// By itself: etcd counts in its process, for all servers in it.
func TestCountsAreTheRequestsOfTheServer(t *testing.T) {
	s := Start(t)
	kv := pb.NewKVClient(s.Conn(t))
	before, err := s.Counts()
	require.NoError(t, err)
	for range 3 {
		_, err := kv.Txn(t.Context(), &pb.TxnRequest{})
		require.NoError(t, err)
	}
	after, err := s.Counts()
	require.NoError(t, err)
	d := after.Since(before)
	assert.Equal(t, map[string]int{"Txn": 3}, d.Started)
	assert.Equal(t, map[string]int{"Txn": 3}, d.Received)
	assert.Equal(t, map[string]int{"Txn": 3}, d.Sent)
}

// A closed server that New made gives up its data and ports, and stays closed.
func TestAServerWithoutATestLastsUntilItsClose(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := New(Options{TLS: true})
	require.NoError(t, err)
	require.NoError(t, s.Restart())
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Len(t, left, 1)
	s.Close()
	s.Close()
	left, err = os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.ErrorContains(t, s.Restart(), "closed")

	t.Setenv("TMPDIR", filepath.Join(os.TempDir(), "missing"))
	_, err = New(Options{})
	assert.ErrorContains(t, err, "etcdtest: start")
}
