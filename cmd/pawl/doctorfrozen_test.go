package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// A member that is left alone knows for a while the leader that has gone. It is asked what takes most
// members, and then no check is made that would wait for them.
func TestTheDoctorSaysThatTheQuorumIsLost(t *testing.T) {
	t.Parallel()
	c := etcdtest.StartCluster(t, 3)
	left := c.Follower(t)
	for _, m := range c.Members() {
		if m != left {
			m.Pause(t)
			defer m.Resume(t)
		}
	}
	p := begin(t, strings.Join([]string{c.Member(0).Direct(), c.Member(1).Direct(), c.Member(2).Direct()}, ","), "doctor")
	out := p.lines()
	var said []string
	for out.Scan() {
		said = append(said, out.Text())
	}
	assert.Equal(t, cli.ExitNoCluster, p.code(t))
	all := strings.Join(said, "\n")
	assert.Regexp(t, `(?m)^wrong cluster +(no endpoint answers what takes most members|no leader is known at )|: etcdserver: no leader$`, all,
		"the last, if the member that is left has noticed by the time it is asked")
	assert.NotContains(t, all, "all endpoints belong to it")
	assert.NotContains(t, all, "the cluster works without it")
	assert.NotRegexp(t, `(?m)^\w+ +(ttl|request|key|session) `, all)
	assert.Regexp(t, `\d+ wrong$`, all)
}

func TestWhereAUserIsWantedTheExitCodeSaysSo(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	s.AddUser(t, "ann", "pw", etcdtest.Access{Read: true})
	s.EnableAuth(t, "rootpw")
	for _, args := range [][]string{{"ls"}, {"show", "a"}, {"show", "-q", "a"}, {"watch"}, {"observe", "a"}, {"break", "--yes", "a"}, {"lock", "a", "--", "true"}, {"ui", "--listen", "127.0.0.1:0"}} {
		p := begin(t, s.Addr(), args...)
		assert.Equal(t, cli.ExitNoCluster, p.code(t), args)
		assert.Contains(t, p.stderr.String(), cli.CheckUser, args)
	}
}
