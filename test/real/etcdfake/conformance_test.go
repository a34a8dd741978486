package etcdfake_test

import (
	"testing"

	api "go.etcd.io/etcd/api/v3/version"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/conformance"
	"github.com/pawl-locks/pawl/test/etcdtest/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFakeAnswersAsTheRealServer(t *testing.T) {
	conformance.Compare(t,
		func(t *testing.T) (string, grpc.DialOption) {
			e := embedded.Start(t, embedded.Options{TokenTTL: conformance.TokenTTL})
			return e.Endpoints()[0], e.DialOption()
		},
		func(t *testing.T) (string, grpc.DialOption) {
			c := etcdfake.New(etcdfake.Options{Version: api.Version, TokenTTL: conformance.TokenTTL})
			t.Cleanup(c.Close)
			return c.Endpoints()[0], c.DialOption()
		})
}
