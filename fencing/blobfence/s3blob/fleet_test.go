//go:build unix

package s3blob_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/blobfence"
	"github.com/pawl-locks/pawl/fencing/blobfence/s3blob"
	"github.com/pawl-locks/pawl/fencing/fencetest"
	"github.com/pawl-locks/pawl/internal/testkit/fleet"
)

var (
	runFor  = flag.Duration("fleet", 2*time.Second, "how long each fleet runs at least, with the guard and then without")
	seedFor = flag.Uint64("seed", 0, "of the fleets with readers; 0: at random")
)

// dial returns a client of the gateway at a socket.
func dial(socket string) *s3.Client {
	return s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://gateway"), UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider("test", "testtest", ""),
		HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}},
	})
}

// bucketStore keeps each set in an object.
type bucketStore struct {
	blobfence.Fence
	client *s3.Client
	guard  bool
}

func openBucket(socket string, guard bool) (fleet.Store, error) {
	client := dial(socket)
	store := s3blob.Store{Client: client, Bucket: "bucket", Key: s3blob.Flat, VerifyRead: true}
	return bucketStore{blobfence.Fence{Store: store, Attempts: 100}, client, guard}, nil
}

func (s bucketStore) Close() error { return nil }

func (s bucketStore) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	var body []byte
	var err error
	if s.guard {
		body, err = s.Fence.Read(ctx, resource, t)
	} else {
		body, _, _, err = s.Store.Get(ctx, resource)
	}
	if errors.Is(err, blobfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

func (s bucketStore) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	body, err := s.Fence.ReadShared(ctx, resource, t)
	if errors.Is(err, blobfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

// Write without the guard is conditional on the version of the moment, which is no condition.
func (s bucketStore) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	if s.guard {
		return s.Fence.Write(ctx, resource, t, []byte(value))
	}
	for {
		_, at, err := s.Store.Stat(ctx, resource)
		if err != nil && !errors.Is(err, blobfence.ErrNotFound) {
			return err
		}
		meta := blobfence.Meta{Token: t, Nonce: strconv.FormatInt(time.Now().UnixNano(), 36)}
		if err := s.Store.Put(ctx, resource, []byte(value), meta, at); !errors.Is(err, blobfence.ErrChanged) {
			return err
		}
	}
}

func runFleet(t *testing.T, guard bool, readers fleet.Readers, seed uint64, least time.Duration) fleet.Result {
	g := start(t)
	dir, err := os.MkdirTemp("", "s3fleet")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := fleet.NewProxy(t, filepath.Join(dir, "proxy"), filepath.Join(g.dir, "sock"))
	// The gateway takes its time: a longer lease lets some turns end within it.
	r := fleet.Fleet{Store: "S3", Open: openBucket, Address: p.Path, Guard: guard, For: least, TTL: 250 * time.Millisecond, Cut: p.Cut, Seed: seed, Readers: readers}.Run(t)
	t.Logf("guard %t, %v, seed %d: %v", guard, readers, seed, r)
	require.Positive(t, r.Acked, "nothing was written, so nothing was shown")
	require.Positive(t, r.Expired, "no lease was outlived, so nothing was shown")
	return r
}

func TestFleetLosesNoUpdateWithTheGuardAndSomeWithoutIt(t *testing.T) {
	seed := rand.Uint64()
	guarded := runFleet(t, true, fleet.NoReaders, seed, *runFor)
	assert.Zero(t, guarded.Lost, "%q", guarded.Missing)
	assert.NoError(t, fencetest.Check(guarded.History))

	bare := runFleet(t, false, fleet.NoReaders, seed, *runFor)
	for more := uint64(1); bare.Lost == 0 && more < 5; more++ { // a short run may be lucky
		bare = runFleet(t, false, fleet.NoReaders, seed+more, *runFor<<more)
	}
	assert.Positive(t, bare.Lost, "without the guard nothing was lost either: this test shows nothing")
}

func TestFleetOfReadersAndWritersIsRightWithTwoRegistersAndNotWithOne(t *testing.T) {
	fleet.CheckReaders(t, *seedFor, *runFor, func(readers fleet.Readers, seed uint64, least time.Duration) fleet.Result {
		return runFleet(t, true, readers, seed, least)
	})
}
