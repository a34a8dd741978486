//go:build unix

package s3blob_test

import (
	"context"
	"flag"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing/blobfence/s3blob"
	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/testkit/fleet"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

var runFor = flag.Duration("fleet", 2*time.Second, "how long each fleet runs at least")

// dial returns a client of the gateway at a socket.
func dial(socket string) *s3.Client {
	return s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://gateway"), UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider("test", "testtest", ""),
		HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}},
	})
}

func openBucket(socket string, guard bool) (fleet.Store, error) {
	return fleet.Blobs(s3blob.Store{Client: dial(socket), Bucket: "bucket", Key: s3blob.Flat, VerifyRead: true}, guard), nil
}

// fleetOf is a fleet on an empty bucket. The gateway takes its time: a longer lease lets some turns
// end within it.
func fleetOf(t *testing.T, guard bool, readers fleet.Readers) fleet.Fleet {
	g := start(t)
	dir, err := os.MkdirTemp("", "s3fleet")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := faultproxy.StartAt(t, filepath.Join(dir, "proxy"), filepath.Join(g.dir, "sock"))
	return fleet.Fleet{Store: "S3", Open: openBucket, Address: p.Addr(), Guard: guard, For: *runFor, TTL: 250 * time.Millisecond, Cut: p.Finish, Seed: testscale.Seed(t), Readers: readers}
}

func runFleet(t *testing.T, readers fleet.Readers) fleet.Result {
	f := fleetOf(t, true, readers)
	r := f.Run(t)
	t.Logf("%v, seed %d: %v", readers, f.Seed, r)
	require.Positive(t, r.Acked, "nothing was written, so nothing was shown")
	require.Positive(t, r.Expired, "no lease was outlived, so nothing was shown")
	return r
}

func TestFleetLosesNoUpdateWithTheGuardAndOneWithoutIt(t *testing.T) {
	fleet.CheckGuard(t, func() fleet.Result { return runFleet(t, fleet.NoReaders) },
		func(guard bool) fleet.Result { return fleetOf(t, guard, fleet.NoReaders).Force(t) })
}

func TestFleetOfReadersAndWritersIsRightWithTwoRegistersAndNotWithOne(t *testing.T) {
	fleet.CheckReaders(t, func() fleet.Result { return runFleet(t, fleet.TwoRegisters) },
		func(readers fleet.Readers) fleet.Result { return fleetOf(t, true, readers).Force(t) })
}
