package doctor

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
	asked := 0
	without := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if r, ok := reply.(*pb.AlarmResponse); ok {
			r.Header = nil
			asked++
		}
		return err
	}
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints(), DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(without)}})
	require.NoError(t, err)
	defer c.Close()
	var out strings.Builder
	d := &doctor{out: &out, counts: map[string]int{}}
	ends := d.endpoints(t.Context(), pawl.Config{Endpoints: s.Endpoints()}, time.Minute)
	require.NoError(t, d.alarms(t.Context(), c, ends))
	assert.Contains(t, out.String(), "alarm      none")
	assert.Equal(t, 1, asked, "the answer was not taken")
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
