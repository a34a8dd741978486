package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// notes is a doctor's findings but for those that are ok.
func notes(f func(d *doctor)) string {
	var out strings.Builder
	d := &doctor{out: &out, counts: map[string]int{}}
	f(d)
	var lines []string
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, isOK) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

func member(id, cluster, leader uint64, version string) endpoint {
	return endpoint{name: "e", status: &pb.StatusResponse{
		Header: &pb.ResponseHeader{MemberId: id, ClusterId: cluster}, Leader: leader, Version: version, DbSize: 1, DbSizeQuota: 100,
	}}
}

func TestTheDoctorNamesWhatIsWrongWithAnEndpoint(t *testing.T) {
	one := func(e endpoint) string { return notes(func(d *doctor) { d.endpoint(e, true) }) }
	assert.Empty(t, one(member(1, 1, 1, "3.6.14")))
	assert.Contains(t, one(member(1, 1, 1, "3.6.11")), "look  security   e: etcd 3.6.11 does not enforce all permissions of users: a user who may read one key may watch every key after it (GHSA-xg4h-6gfc-h4m8)\n"+
		"→ upgrade this member to 3.5.33, 3.6.14, 3.7.1 or later; locks are not affected")
	assert.Contains(t, one(member(1, 1, 1, "3.5.9")), "wrong version    e: etcd 3.5.9: has known bugs")
	assert.Contains(t, one(endpoint{name: "e", err: errors.New("why")}), "wrong endpoint   e: does not answer: why")
	refused := status.Error(codes.InvalidArgument, "authentication failed")
	assert.Regexp(t, `wrong endpoint   e: refuses this user: .*authentication failed\n→ check --user`, one(endpoint{name: "e", err: fmt.Errorf("dial: %w", refused)}))
	leaderless := errors.Join(context.DeadlineExceeded, fmt.Errorf("e: %w", rpctypes.ErrGRPCNoLeader))
	assert.Equal(t, "wrong endpoint   e: answers, and knows no leader\n→ most members have to run, and to reach each other: start the others, or check the network between them",
		one(endpoint{name: "e", err: leaderless}))
	learner := member(1, 1, 2, "3.7.0")
	learner.status.IsLearner = true
	assert.Contains(t, one(learner), "look  endpoint   e: is a learner")
	filling := member(1, 1, 1, "3.7.0")
	filling.status.DbSize = 80
	assert.Contains(t, one(filling), "look  alarm      e: its database has")
}

func TestTheDoctorFindsANameInBothLayouts(t *testing.T) {
	of := func(queues ...inspect.NamedQueue) string { return notes(func(d *doctor) { d.layouts(queues) }) }
	a, b := inspect.NamedQueue{Name: "a/b", Prefix: "/a%2Fb/"}, inspect.NamedQueue{Name: "a/b", Prefix: "a/b/", EtcdLayout: true}
	for _, both := range [][]inspect.NamedQueue{{a, b}, {b, a}} {
		assert.Contains(t, of(both...), `"a/b" is used in etcd's layout and in pawl's own`)
	}
	assert.Empty(t, of(a, inspect.NamedQueue{Name: "b", Prefix: "b/"}))
	assert.Empty(t, of(b, inspect.NamedQueue{Name: "c/d", Prefix: "/c%2Fd/"}))
	assert.Empty(t, of(b, inspect.NamedQueue{Name: "a/b", Prefix: "//pawl/sem//a%2Fb/", Semaphore: true}))
}

func TestTheDoctorFindsALockAndASemaphoreOfOneName(t *testing.T) {
	of := func(queues ...inspect.NamedQueue) string { return notes(func(d *doctor) { d.kinds(queues) }) }
	a, s := inspect.NamedQueue{Name: "a", Prefix: "a/"}, inspect.NamedQueue{Name: "a", Prefix: "//pawl/sem/a/", Semaphore: true}
	for _, both := range [][]inspect.NamedQueue{{a, s}, {s, a}} {
		assert.Contains(t, of(both...), `"a" is the name of a semaphore and of a separate lock, which do not exclude each other`)
	}
	assert.Empty(t, of(a, inspect.NamedQueue{Name: "b", Prefix: "//pawl/sem/b/", Semaphore: true}))
	assert.Empty(t, of(s))
}

// That the cluster works without a member is said only where one that answers has shown it.
func TestTheDoctorPromisesNoClusterWithoutAQuorum(t *testing.T) {
	dead := endpoint{name: "dead", err: errors.New("why")}
	of := func(ends ...endpoint) string {
		return notes(func(d *doctor) {
			for _, e := range ends {
				d.endpoint(e, haveQuorum(ends))
			}
		})
	}
	shows := member(1, 7, 1, "3.6.9")
	shows.agreed = true
	assert.Contains(t, of(dead, shows, member(2, 7, 1, "3.6.9")), "the cluster works without it")
	for _, ends := range [][]endpoint{{dead}, {dead, dead, member(1, 7, 0, "3.6.9")}, {dead, dead, member(1, 7, 2, "3.6.9")}} {
		assert.Contains(t, of(ends...), "start it, or check the network to it")
		assert.NotContains(t, of(ends...), "the cluster works without it")
	}
}

func TestTheDoctorComparesEndpoints(t *testing.T) {
	all := func(ends ...endpoint) string { return notes(func(d *doctor) { d.cluster(ends) }) }
	assert.Empty(t, all(member(1, 7, 1, ""), member(2, 7, 1, ""), endpoint{name: "dead"}))
	assert.Contains(t, all(member(1, 7, 1, ""), member(2, 8, 2, "")), "different clusters: 7 has e; 8 has e")
	assert.Contains(t, all(member(1, 7, 1, ""), member(2, 7, 0, "")), "no leader is known at e")
	assert.Contains(t, all(member(1, 7, 1, ""), member(2, 7, 2, "")), "different leaders")
	left := member(1, 7, 3, "") // it knows for a while the leader that has gone
	left.alone = true
	assert.Contains(t, all(left, endpoint{name: "dead"}, endpoint{name: "dead"}), "wrong cluster    no endpoint answers what takes most members")
	shows := member(2, 7, 3, "")
	shows.agreed = true
	assert.Empty(t, all(left, shows, endpoint{name: "dead"}))
}

// Where the cluster does not answer, each check that is left would take all of its time, and find the same.
func TestTheDoctorSkipsWhatIsLeftWhereTheClusterDoesNotAnswer(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		ran  int
	}{
		{nil, cli.ExitOK, 2},
		{status.Error(codes.PermissionDenied, "etcdserver: permission denied"), cli.ExitWrong, 2},
		{fmt.Errorf("no lease is granted: %w", status.Error(codes.Unavailable, "etcdserver: no leader")), cli.ExitNoCluster, 1},
		{context.DeadlineExceeded, cli.ExitNoCluster, 1},
	} {
		d, ran := &doctor{out: io.Discard, counts: map[string]int{}}, 0
		err := d.run(t.Context(), nil, time.Minute,
			func(context.Context, *pawl.Client) error { ran++; return c.err },
			func(context.Context, *pawl.Client) error { ran++; return nil })
		assert.Equal(t, c.code, cli.CodeOf(err), c.err)
		assert.Equal(t, c.ran, ran, c.err)
	}
}

func TestTheDoctorExaminesSessions(t *testing.T) {
	one := func(k inspect.SessionKey, left time.Duration) string {
		return notes(func(d *doctor) { d.session(k, inspect.Lease{Left: left, Granted: 20 * time.Second}) })
	}
	good := inspect.SessionKey{Position: inspect.Position{Key: "//pawl/1f", Lease: 0x1f, Owner: "ann"}, KeyLease: 0x1f}
	assert.Empty(t, one(good, 10*time.Second))
	assert.Regexp(t, `^look  session .*ann has not renewed it for 11s.*its locks expire in 9s\n→ .*etcdctl lease revoke 1f$`, one(good, 9*time.Second))
	other := good
	other.KeyLease = 0x2f
	assert.Contains(t, one(other, 20*time.Second), "is on lease 1f, which it does not name")
	none := good
	none.Lease = 0
	assert.Contains(t, one(none, 0), "wrong session")
}

func TestTheDoctorComparesTheClocksRateAndNotItsTime(t *testing.T) {
	rate := func(ppm float64, kept bool) string { return notes(func(d *doctor) { d.classifyRate(ppm, kept) }) }
	assert.Empty(t, rate(-500, true))
	assert.Contains(t, rate(12, false), "look  clock")
	assert.Contains(t, rate(-5000, true), "catching up")
	assert.Contains(t, rate(100_001, true), "wrong clock")
}
