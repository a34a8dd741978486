package s3blob_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"

	"github.com/pawl-locks/pawl/internal/testkit/fleet"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// A gateway is a Versity S3 gateway on a directory: this test binary, run again as the server.
type gateway struct {
	dir    string // objects are in data
	client *s3.Client
	stop   func()
}

const gatewayVariable = "S3BLOB_GATEWAY"

func TestMain(m *testing.M) {
	fleet.Main(map[string]fleet.Opener{"S3": openBucket})
	if dir := os.Getenv(gatewayVariable); dir != "" {
		fmt.Fprintln(os.Stderr, serve(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func serve(dir string) error {
	store, err := posix.New(filepath.Join(dir, "data"), meta.XattrMeta{}, posix.PosixOpts{})
	if err != nil {
		return err
	}
	return embedgw.RunVersityGW(context.Background(), store, &embedgw.Config{
		RootUserAccess: "test", RootUserSecret: "testtest", Region: "us-east-1", Ports: []string{filepath.Join(dir, "sock")}, Quiet: true, KeepAlive: true,
		MaxConnections: 1000, MaxRequests: 1000, MultipartMaxParts: 100,
	})
}

// start returns a gateway with the bucket "bucket", empty.
func start(t testing.TB) *gateway {
	t.Helper()
	dir, err := os.MkdirTemp("", "s3blob") // short: it is in a socket's path
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
	g := &gateway{dir: dir}
	g.client = dial(filepath.Join(dir, "sock"))
	t.Cleanup(func() { g.stop() })
	g.run(t)
	_, err = g.client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("bucket")})
	require.NoError(t, err)
	return g
}

func (g *gateway) run(t testing.TB) {
	t.Helper()
	var out strings.Builder
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), gatewayVariable+"="+g.dir)
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	stopped := false
	g.stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	require.Eventually(t, func() bool {
		_, err := g.client.ListBuckets(t.Context(), &s3.ListBucketsInput{})
		return err == nil
	}, testscale.Hang, 20*time.Millisecond, "the gateway does not answer")
}

// crash ends the gateway with SIGKILL and starts it again.
func (g *gateway) crash(t testing.TB) {
	t.Helper()
	g.stop()
	_ = os.Remove(filepath.Join(g.dir, "sock"))
	g.run(t)
}
