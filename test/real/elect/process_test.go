//go:build unix

package elect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/testkit/leaderview"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// lossesVariable says how many terms the processes are to lose; by default each
// kind of loss comes once. Two hundred take about ten minutes.
const lossesVariable = "PAWL_ELECT_TEST_LOSSES"

// A candidateProcess is a candidate in a separate process, and its way to etcd.
type candidateProcess struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	proxy *faultproxy.Proxy
}

// A news is what one of the processes said.
type news struct {
	by *candidateProcess
	bulletin
}

// A field is candidates in processes, and a real etcd.
type field struct {
	t    *testing.T
	op   pb.KVClient
	ls   pb.LeaseClient
	news chan news
	all  []*candidateProcess

	won    map[int64]news // by token
	over   map[int64]bulletin
	struck map[int64]bool // an operator took it
}

func newField(t *testing.T, s *etcdtest.Server) *field {
	f := &field{
		t: t, op: pb.NewKVClient(s.Conn(t)), ls: pb.NewLeaseClient(s.Conn(t)), news: make(chan news, 100),
		won: map[int64]news{}, over: map[int64]bulletin{}, struck: map[int64]bool{},
	}
	u, err := url.Parse(s.Endpoints()[0])
	require.NoError(t, err)
	for range 3 {
		f.start(u.Host)
	}
	return f
}

// start starts one candidate, which lasts until the end of the test.
func (f *field) start(etcd string) {
	f.t.Helper()
	p := &candidateProcess{proxy: faultproxy.Start(f.t, etcd)}
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestRoleCandidate$", "-test.v")
	p.cmd.Env = append(os.Environ(), roleVariable+"=candidate", endpointVariable+"="+p.proxy.Addr())
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that no other process wakes it while it is stopped
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(f.t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, p.cmd.Start())
	f.all = append(f.all, p)
	read := make(chan struct{})
	go func() { // ends with the process
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n := news{by: p}
			if line, ok := strings.CutPrefix(lines.Text(), "term "); ok && assert.NoError(f.t, json.Unmarshal([]byte(line), &n.bulletin)) {
				f.news <- n
			}
		}
	}()
	f.t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.in.Close()
		<-read
		assert.NoError(f.t, p.cmd.Wait())
	})
}

// until takes news in until enough says so.
func (f *field) until(what string, enough func(n news) bool) news {
	f.t.Helper()
	late := time.After(testscale.Hang)
	for {
		select {
		case n := <-f.news:
			if token := int64(n.Token); n.Over == "" {
				f.won[token] = n
			} else {
				f.over[token] = n.bulletin
			}
			if enough(n) {
				return n
			}
		case <-late:
			require.FailNow(f.t, "no news", "of %s", what)
		}
	}
}

// lose takes its term from the leader n, in the way of that name, and checks
// what it reports. It returns the next leader.
func (f *field) lose(n news, way string) (next news) {
	f.t.Helper()
	var want []string
	heal := func() {}
	ctx, token := context.Background(), int64(n.Token)
	switch way {
	case "revoke":
		want, f.struck[token] = []string{"revoked", "deleted"}, true // as in TestTwentyKillsOfTheLeaseOnARealServer
		_, err := f.ls.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: n.Lease})
		require.NoError(f.t, err)
	case "delete":
		want, f.struck[token] = []string{"deleted"}, true
		_, err := f.op.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(n.Key)})
		require.NoError(f.t, err)
	case "stop":
		want = []string{"expired", "revoked"} // what it sees first when it continues
		require.NoError(f.t, n.by.cmd.Process.Signal(syscall.SIGSTOP))
		heal = func() { require.NoError(f.t, n.by.cmd.Process.Signal(syscall.SIGCONT)) }
	case "cut":
		want, heal = []string{"expired"}, n.by.proxy.Heal
		n.by.proxy.Refuse()
	case "hole":
		want, heal = []string{"expired"}, n.by.proxy.Heal
		n.by.proxy.BlackHole()
	case "close", "resign":
		want = []string{way + "d", way + "ed"}
		_, err := fmt.Fprintln(n.by.in, way, token)
		require.NoError(f.t, err)
	}
	next = f.until("the next leader after "+way, func(other news) bool { return other.Over == "" && other.Token != n.Token })
	heal()
	if _, reported := f.over[token]; !reported {
		f.until("the loss by "+way, func(other news) bool { return other.Over != "" && other.Token == n.Token })
	}
	assert.Contains(f.t, want, f.over[token].Over)
	return next
}

// check holds all terms against each other: in the order of their tokens one
// begins after the one before is over, but for those that an operator ended.
func (f *field) check() {
	f.t.Helper()
	var order []int64
	for token := range f.won {
		order = append(order, token)
	}
	slices.Sort(order)
	for i, token := range order[1:] {
		before := order[i]
		assert.True(f.t, f.won[before].Won.Before(f.won[token].Won), "tokens %d and %d", before, token)
		if !f.struck[before] {
			assert.True(f.t, f.over[before].Last.Before(f.won[token].Won),
				"token %d is valid at %v, %d was won before %v", before, f.over[before].Last, token, f.won[token].Won)
		}
	}
}

// Three candidates in processes, a real etcd, and every way to lose a term;
// what Observe says is held against a watch of the prefix.
func TestProcessesLoseTheirTermsInEveryWay(t *testing.T) {
	t.Parallel()
	ways := []string{"stop", "revoke", "cut", "delete", "close", "hole", "resign"}
	losses := len(ways)
	if n, err := strconv.Atoi(os.Getenv(lossesVariable)); err == nil {
		losses = n
	}
	s := etcdtest.StartWith(t, etcdtest.Options{Heartbeat: 100 * time.Millisecond})
	c, err := pawl.Dial(context.Background(), pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	witness := watchPrefix(t, ctx, s, "e/")
	v := leaderview.Begin(ctx, c, "e", 0)
	f := newField(t, s)
	leader := f.until("the first leader", func(n news) bool { return n.Over == "" })
	rnd := rand.New(rand.NewPCG(testscale.Seed(t), 0))
	for i := range losses {
		way := ways[i%len(ways)]
		if losses > len(ways) {
			way = ways[rnd.IntN(len(ways))]
		}
		leader = f.lose(leader, way)
	}
	f.check()
	assert.GreaterOrEqual(t, len(f.over), losses)
	require.Eventually(t, func() bool {
		seen := v.Seen()
		return len(seen) > 0 && seen[len(seen)-1].Token == leader.Token
	}, testscale.Hang, 10*time.Millisecond)
	_, err = f.op.Put(ctx, &pb.PutRequest{Key: []byte("e/end")}) // behind the leader in the queue
	require.NoError(t, err)
	history := witness("e/end")
	cancel()
	<-v.Ended
	leaderview.RequireTrue(t, v.Seen(), history, "e/")
}

// watchPrefix watches a prefix of a real etcd as plainly as can be. What it
// returns waits until the watch has delivered an event of a key, and returns all that it delivered
// until then.
func watchPrefix(t *testing.T, ctx context.Context, s *etcdtest.Server, prefix string) func(key string) []etcdfake.Change {
	w, err := pb.NewWatchClient(s.Conn(t)).Watch(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: []byte(prefix), RangeEnd: txn.PrefixEnd(prefix), StartRevision: 1,
	}}}))
	return func(key string) (all []etcdfake.Change) {
		for !slices.ContainsFunc(all, func(c etcdfake.Change) bool { return c.Key == key }) {
			r, err := w.Recv()
			require.NoError(t, err)
			for _, ev := range r.Events {
				all = append(all, etcdfake.Change{
					Key: string(ev.Kv.Key), Deleted: ev.Type == mvccpb.Event_DELETE, Value: ev.Kv.Value,
					CreateRevision: ev.Kv.CreateRevision, Revision: ev.Kv.ModRevision,
				})
			}
		}
		return all
	}
}
