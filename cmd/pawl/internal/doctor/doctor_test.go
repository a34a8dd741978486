package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
	one := func(e endpoint) string { return notes(func(d *doctor) { d.endpoint(e) }) }
	assert.Empty(t, one(member(1, 1, 1, "3.6.9")))
	assert.Contains(t, one(member(1, 1, 1, "3.5.9")), "wrong version    e: etcd 3.5.9: has known bugs")
	assert.Contains(t, one(endpoint{name: "e", err: errors.New("why")}), "wrong endpoint   e: does not answer: why")
	refused := status.Error(codes.InvalidArgument, "authentication failed")
	assert.Regexp(t, `wrong endpoint   e: refuses this user: .*authentication failed\n→ check --user`, one(endpoint{name: "e", err: fmt.Errorf("dial: %w", refused)}))
	learner := member(1, 1, 2, "3.7.0")
	learner.status.IsLearner = true
	assert.Contains(t, one(learner), "look  endpoint   e: is a learner")
	filling := member(1, 1, 1, "3.7.0")
	filling.status.DbSize = 80
	assert.Contains(t, one(filling), "look  alarm      e: its database has")
}

func TestTheDoctorComparesEndpoints(t *testing.T) {
	all := func(ends ...endpoint) string { return notes(func(d *doctor) { d.cluster(ends) }) }
	assert.Empty(t, all(member(1, 7, 1, ""), member(2, 7, 1, ""), endpoint{name: "dead"}))
	assert.Contains(t, all(member(1, 7, 1, ""), member(2, 8, 2, "")), "different clusters: 7 has e; 8 has e")
	assert.Contains(t, all(member(1, 7, 1, ""), member(2, 7, 0, "")), "no leader is known at e")
	assert.Contains(t, all(member(1, 7, 1, ""), member(2, 7, 2, "")), "different leaders")
}

func TestTheDoctorExaminesSessions(t *testing.T) {
	one := func(k inspect.SessionKey, left time.Duration) string {
		return notes(func(d *doctor) { d.session(k, inspect.Lease{Left: left, Granted: 20 * time.Second}) })
	}
	good := inspect.SessionKey{Position: inspect.Position{Key: "//pawl/1f", Lease: 0x1f, Owner: "ann"}, Named: 0x1f}
	assert.Empty(t, one(good, 10*time.Second))
	assert.Regexp(t, `^look  session .*ann has not renewed it for 11s.*its locks expire in 9s\n→ .*etcdctl lease revoke 1f$`, one(good, 9*time.Second))
	other := good
	other.Named = 0x2f
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
