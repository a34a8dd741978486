package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/test/etcdtest"
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

func TestTheDoctorJudgesSessions(t *testing.T) {
	one := func(k inspect.SessionKey, left time.Duration) string {
		return notes(func(d *doctor) { d.session(k, inspect.Lease{Left: left, Granted: 20 * time.Second}) })
	}
	good := inspect.SessionKey{Place: inspect.Place{Key: "//pawl/1f", Lease: 0x1f, Owner: "ann"}, Named: 0x1f}
	assert.Empty(t, one(good, 10*time.Second))
	assert.Regexp(t, `^look  session .*ann has not renewed it for 11s.*its locks go in 9s\n→ .*etcdctl lease revoke 1f$`, one(good, 9*time.Second))
	other := good
	other.Named = 0x2f
	assert.Contains(t, one(other, 20*time.Second), "is on lease 1f, which it does not name")
	none := good
	none.Lease = 0
	assert.Contains(t, one(none, 0), "wrong session")
}

func TestTheDoctorJudgesTheClocksRateAndNotItsTime(t *testing.T) {
	rate := func(ppm float64, kept bool) string { return notes(func(d *doctor) { d.judgeRate(ppm, kept) }) }
	assert.Empty(t, rate(-500, true))
	assert.Contains(t, rate(12, false), "look  clock")
	assert.Contains(t, rate(-5000, true), "catching up")
	assert.Contains(t, rate(100_001, true), "wrong clock")
}

// Permission to write is asked for without a write; what is missing is named.
func TestTheDoctorFindsMissingPermissionsAndAFullDisk(t *testing.T) {
	t.Parallel()
	c := etcdtest.StartClusterWith(t, 1, etcdtest.ClusterOptions{Options: etcdtest.Options{QuotaBytes: 16 << 20}})
	c.AddUser(t, "ann", "pw", etcdtest.Access{Prefix: "//pawl/", Read: true, Write: true}, etcdtest.Access{Prefix: "jobs/", Read: true, Write: true},
		etcdtest.Access{Prefix: "/jobs%2F", Read: true}, etcdtest.Access{Prefix: "seen/", Read: true})
	c.EnableAuth(t, "pw")
	before := c.Revision(t)
	look := func(user, prefix string) (string, int) {
		args := []string{"doctor", prefix}
		if user != "" {
			args = append(args, "--user", user+":pw")
		}
		p := begin(t, c.Member(0).Endpoint(), args...)
		out := p.lines()
		var lines []string
		for out.Scan() {
			lines = append(lines, out.Text())
		}
		return strings.Join(lines, "\n"), p.code(t)
	}
	said, code := look("ann", "jobs/")
	assert.Regexp(t, `look  permission keys from "/jobs%2F": this user may not write all of them`, said, "a lock jobs/42 lies there, and not below jobs/")
	assert.NotContains(t, said, `keys from "jobs/"`)
	assert.Equal(t, 0, code, said)
	said, code = look("ann", "seen/")
	assert.Contains(t, said, `keys from "seen/": this user may not write all of them`)
	assert.NotContains(t, said, `"seen/": this user may not read all`)
	assert.Equal(t, 1, code)
	said, _ = look("ann", "other/")
	assert.Contains(t, said, `keys from "other/": this user may not read all of them`)
	assert.Regexp(t, regexp.MustCompile(`request .*permission denied.*needs read on all keys`), said)
	assert.Equal(t, before, c.Revision(t), "the doctor has written")

	said, code = look("root", "")
	assert.Contains(t, said, `this user may read and write the keys from "//pawl/" and from ""`, "without a namespace and a PREFIX")
	assert.Equal(t, 0, code, said)
	assert.Equal(t, before, c.Revision(t), "the doctor has written")

	c.DisableAuth(t)
	c.FillQuota(t)
	said, code = look("", "")
	require.Contains(t, said, "NOSPACE")
	assert.Contains(t, said, "no lease is granted: the database is full")
	assert.Equal(t, 1, code)
}
