package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// etcd 3.4 answers the question for alarms without a header.
func TestTheDoctorTakesEtcd34sAnswerAboutAlarms(t *testing.T) {
	s := etcdtest.Start(t)
	without := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if r, ok := reply.(*pb.AlarmResponse); ok {
			r.Header = nil
		}
		return err
	}
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints(), DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(without)}})
	require.NoError(t, err)
	defer c.Close()
	var out strings.Builder
	d := &doctor{out: &out, counts: map[string]int{}}
	ends := d.endpoints(t.Context(), pawl.Config{Endpoints: s.Endpoints()}, time.Minute)
	began := time.Now()
	require.NoError(t, d.alarms(t.Context(), c, ends))
	assert.Contains(t, out.String(), "alarm      none")
	assert.Less(t, time.Since(began), 3*time.Second)
}

func TestAReadThatFailsIsNotSaidToHaveBeenAppliedPerhaps(t *testing.T) {
	s := etcdtest.Start(t)
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	defer c.Close()
	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	d := &doctor{out: &strings.Builder{}, counts: map[string]int{}}
	for _, err := range []error{d.alarms(ctx, c, nil), d.members(ctx, c, nil)} {
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "applied")
	}
}

// A server that is stopped in the midst of its work is that, and no other kind of server.
func TestTheDoctorSaysOfAFrozenServerThatItIsSilent(t *testing.T) {
	t.Parallel()
	c := etcdtest.StartCluster(t, 3)
	frozen := c.Member(2)
	frozen.Pause(t)
	defer frozen.Resume(t)
	p := begin(t, strings.Join([]string{c.Member(0).Direct(), c.Member(1).Direct(), frozen.Direct()}, ","), "doctor")
	out := p.lines()
	var said []string
	for out.Scan() {
		if strings.Contains(out.Text(), frozen.Direct()) {
			said = append(said, out.Text())
		}
	}
	assert.Equal(t, exitWrong, p.code(t))
	require.NotEmpty(t, said)
	assert.Contains(t, said[0], "says nothing: stopped, overloaded")
	assert.NotContains(t, said[0], ": not an etcd server")
}

func TestWhereAUserIsWantedTheExitCodeSaysSo(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	s.AddUser(t, "ann", "pw", etcdtest.Access{Read: true})
	s.EnableAuth(t, "rootpw")
	for _, args := range [][]string{{"ls"}, {"show", "a"}, {"show", "-q", "a"}, {"watch"}, {"observe", "a"}, {"break", "--yes", "a"}, {"lock", "a", "--", "true"}, {"ui", "--listen", "127.0.0.1:0"}} {
		p := begin(t, s.Addr(), args...)
		assert.Equal(t, exitNoCluster, p.code(t), args)
		assert.Contains(t, p.stderr.String(), checkUser, args)
	}
}
