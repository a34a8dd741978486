package s3blob_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/blobfence"
	"github.com/pawl-locks/pawl/fencing/blobfence/s3blob"
	"github.com/pawl-locks/pawl/fencing/fencetest"
)

func (g *gateway) store() s3blob.Store {
	return s3blob.Store{Client: g.client, Bucket: "bucket", Key: s3blob.Flat, VerifyRead: true}
}

// guarded is a Fence as the suite wants it.
type guarded struct {
	blobfence.Fence
	g *gateway
}

func (s guarded) Read(ctx context.Context, name string, t fencing.Token) (string, error) {
	body, err := s.Fence.Read(ctx, name, t)
	if errors.Is(err, blobfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

func (s guarded) ReadShared(ctx context.Context, name string, t fencing.Token) (string, error) {
	body, err := s.Fence.ReadShared(ctx, name, t)
	if errors.Is(err, blobfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

func (s guarded) Write(ctx context.Context, name string, t fencing.Token, value string) error {
	return s.Fence.Write(ctx, name, t, []byte(value))
}

// losing loses the answer of the first write, at the client.
type losing struct {
	s3blob.Client
	lost bool
}

func (l *losing) PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	out, err := l.Client.PutObject(ctx, in, opts...)
	if err == nil && !l.lost {
		l.lost = true
		return nil, errors.New("connection reset")
	}
	return out, err
}

func TestFenceOnARealServerPassesTheSuite(t *testing.T) {
	g := start(t)
	n := 0
	fencetest.Suite{
		Open: func(t *testing.T) fencetest.Store {
			store, bucket := g.store(), "bucket-"+string(rune('a'+n))
			n++
			_, err := g.client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket})
			require.NoError(t, err)
			store.Bucket = bucket
			return guarded{blobfence.Fence{Store: store}, g}
		},
		Join: func(_ *testing.T, s fencetest.Store) fencetest.Store {
			store := g.store()
			store.Bucket = s.(guarded).Store.(s3blob.Store).Bucket
			return guarded{blobfence.Fence{Store: store}, g}
		},
		Peek: func(ctx context.Context, s fencetest.Store, name string) (string, error) {
			body, _, _, err := s.(guarded).Store.Get(ctx, name)
			if errors.Is(err, blobfence.ErrNotFound) {
				err = nil
			}
			return string(body), err
		},
		Restart: func(t *testing.T, s fencetest.Store) fencetest.Store {
			g.crash(t)
			return s
		},
		LoseAnswer: func(ctx context.Context, s fencetest.Store, name string, token fencing.Token, value string) error {
			store := s.(guarded).Store.(s3blob.Store)
			store.Client = &losing{Client: store.Client}
			return guarded{blobfence.Fence{Store: store}, g}.Write(ctx, name, token, value)
		},
	}.Run(t)
}

func TestPutOfTheSameBodyGivesAnotherVersion(t *testing.T) {
	g := start(t)
	s := g.store()
	seen := map[blobfence.Version]bool{"": true}
	at := blobfence.Version("")
	for i, m := range []blobfence.Meta{{Token: 41, Nonce: "A"}, {Token: 57, Nonce: "B"}, {Token: 57, Nonce: "C", Absent: true}} {
		require.NoError(t, s.Put(t.Context(), "state", []byte("same"), m, at))
		body, got, now, err := s.Get(t.Context(), "state")
		require.NoError(t, err)
		assert.Equal(t, "same", string(body))
		assert.Equal(t, m, got)
		assert.False(t, seen[now], "write %d: an older holder's If-Match would still hold", i)
		seen[now], at = true, now
	}
}

func TestPutOverAnotherVersionIsRefused(t *testing.T) {
	g := start(t)
	s := g.store()
	m := blobfence.Meta{Token: 41, Nonce: "A"}
	assert.ErrorIs(t, s.Put(t.Context(), "state", nil, m, `"0123456789abcdef0123456789abcdef"`), blobfence.ErrChanged)
	require.NoError(t, s.Put(t.Context(), "state", nil, m, ""))
	assert.ErrorIs(t, s.Put(t.Context(), "state", nil, m, ""), blobfence.ErrChanged)
	assert.ErrorIs(t, s.Put(t.Context(), "state", nil, m, `"0123456789abcdef0123456789abcdef"`), blobfence.ErrChanged)
}

func TestMissingBucketIsNoMissingObject(t *testing.T) {
	g := start(t)
	s := g.store()
	s.Bucket = "nowhere"
	_, err := blobfence.Fence{Store: s}.Read(t.Context(), "state", 57)
	assert.NotErrorIs(t, err, blobfence.ErrNotFound)
	err = blobfence.Fence{Store: s}.Write(t.Context(), "state", 57, nil)
	assert.ErrorIs(t, err, blobfence.ErrNotApplied)
	assert.ErrorContains(t, err, "NoSuchBucket")
}

func TestObjectOfAnotherWriterIsAdoptedAndStaysReadable(t *testing.T) {
	g := start(t)
	_, err := g.client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String("dir/state.json"), Body: strings.NewReader(`{"a":1}`)})
	require.NoError(t, err)
	s := s3blob.Store{Client: g.client, Bucket: "bucket", VerifyRead: true, Prepare: func(in *s3.PutObjectInput) { in.ContentType = aws.String("application/json") }}
	body, err := blobfence.Fence{Store: s}.Read(t.Context(), "dir/state.json", 57)
	require.NoError(t, err)
	assert.Equal(t, `{"a":1}`, string(body))

	out, err := g.client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("dir/state.json")})
	require.NoError(t, err)
	defer out.Body.Close()
	plain, err := io.ReadAll(out.Body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"a":1}`, string(plain))
	assert.Equal(t, "57", out.Metadata["pawl-token"])
	assert.Equal(t, "application/json", aws.ToString(out.ContentType))
}

func TestVerbatimRefusesWhatOthersChange(t *testing.T) {
	for _, name := range []string{"a", "a/b.json", "ä", "a b", "...", "a%2Fb"} {
		key, err := s3blob.Verbatim(name)
		require.NoError(t, err)
		assert.Equal(t, name, key)
	}
	for _, name := range []string{"", "/a", "a/", "a//b", ".", "a/../b", "a\nb", "\xff"} {
		_, err := s3blob.Verbatim(name)
		assert.ErrorIs(t, err, fencing.ErrNoResource, "%q", name)
		assert.ErrorIs(t, s3blob.Store{Client: &s3.Client{}, Bucket: "b"}.Put(t.Context(), name, nil, blobfence.Meta{}, ""), blobfence.ErrNotApplied)
	}
}

func TestStoreWithoutClientOrBucketSaysSo(t *testing.T) {
	for _, s := range []s3blob.Store{{}, {Bucket: "b"}, {Client: &s3.Client{}}} {
		_, _, err := s.Stat(t.Context(), "a")
		assert.ErrorContains(t, err, "Client and Bucket are required")
	}
}
