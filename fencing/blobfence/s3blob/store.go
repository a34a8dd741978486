package s3blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/pawl-locks/pawl/fencing/blobfence"
)

// A Client is a *s3.Client.
type Client interface {
	HeadObject(ctx context.Context, in *s3.HeadObjectInput, opts ...func(*s3.Options)) (*s3.HeadObjectOutput, error)
	GetObject(ctx context.Context, in *s3.GetObjectInput, opts ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// A Store is a blobfence.Store in a bucket. Its methods are safe for concurrent use.
type Store struct {
	Client Client
	Bucket string

	// Key returns the key for an object's name. Two names must not get the same key. If it is nil,
	// Verbatim is used.
	Key func(name string) (string, error)

	// Prepare, if not nil, is called with each write before it is sent, to set what else the object
	// needs (ContentType, encryption). It must leave alone the key, the body, the conditions, and
	// the metadata whose names begin with "pawl-".
	Prepare func(*s3.PutObjectInput)

	// VerifyRead is for servers that read an object's metadata and its ETag one after the other while a
	// write may come between (versitygw 1.8 does). S3 itself returns both as of one instant. With
	// VerifyRead, each read is made twice, and again until both find the same.
	VerifyRead bool
}

var errTorn = errors.New("the object changed while it was read")

// mostReads bounds how often a read is repeated.
const mostReads = 20

// Stat reads the object's head.
func (s Store) Stat(ctx context.Context, name string) (m blobfence.Meta, at blobfence.Version, err error) {
	_, m, at, err = s.read(ctx, name, s.stat)
	return m, at, err
}

// Get reads the object.
func (s Store) Get(ctx context.Context, name string) (body []byte, m blobfence.Meta, at blobfence.Version, err error) {
	return s.read(ctx, name, s.get)
}

type readFunc func(ctx context.Context, key string) ([]byte, blobfence.Meta, blobfence.Version, error)

// read calls first, and with VerifyRead then reads the head. What both found was there from the time the
// first had read the later of its two parts, until the second read the earlier of its two, because a
// version that was replaced does not come back.
func (s Store) read(ctx context.Context, name string, first readFunc) ([]byte, blobfence.Meta, blobfence.Version, error) {
	key, err := s.key(name)
	if err != nil {
		return nil, blobfence.Meta{}, "", err
	}
	for range mostReads {
		body, m, at, err := first(ctx, key)
		if errors.Is(err, errTorn) {
			continue
		}
		if err != nil || !s.VerifyRead {
			return body, m, at, err
		}
		_, m2, at2, err := s.stat(ctx, key)
		if err != nil {
			return nil, blobfence.Meta{}, "", err
		}
		if m == m2 && at == at2 {
			return body, m, at, nil
		}
	}
	return nil, blobfence.Meta{}, "", fmt.Errorf("s3://%s/%s: %w, %d times", s.Bucket, key, errTorn, mostReads)
}

func (s Store) stat(ctx context.Context, key string) ([]byte, blobfence.Meta, blobfence.Version, error) {
	out, err := s.Client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.Bucket, Key: &key})
	if err != nil {
		return nil, blobfence.Meta{}, "", s.readError(key, err)
	}
	m, _, err := parseMeta(out.Metadata)
	return nil, m, blobfence.Version(aws.ToString(out.ETag)), err
}

func (s Store) get(ctx context.Context, key string) ([]byte, blobfence.Meta, blobfence.Version, error) {
	out, err := s.Client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.Bucket, Key: &key})
	if err != nil {
		return nil, blobfence.Meta{}, "", s.readError(key, err)
	}
	body, err := io.ReadAll(out.Body)
	if err = errors.Join(err, out.Body.Close()); err != nil {
		return nil, blobfence.Meta{}, "", err
	}
	m, ours, err := parseMeta(out.Metadata)
	if err == nil && ours {
		body, err = cutTrailer(body, m.Nonce)
	}
	return body, m, blobfence.Version(aws.ToString(out.ETag)), err
}

// Put writes the object if its ETag is at, or if it is not there and at is "".
func (s Store) Put(ctx context.Context, name string, body []byte, m blobfence.Meta, at blobfence.Version) error {
	key, err := s.key(name)
	if err != nil {
		return fmt.Errorf("%w: %w", blobfence.ErrNotApplied, err)
	}
	in := &s3.PutObjectInput{Bucket: &s.Bucket, Key: &key, Body: bytes.NewReader(addTrailer(body, m.Nonce)), Metadata: formatMeta(m)}
	if at == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = aws.String(string(at))
	}
	if s.Prepare != nil {
		s.Prepare(in)
	}
	if _, err := s.Client.PutObject(ctx, in, once); err != nil {
		return putError(err)
	}
	return nil
}

// once disables retries. A second copy, sent by the SDK, would be refused because the first was applied,
// and that would look as if somebody else had written.
func once(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

func (s Store) key(name string) (string, error) {
	if s.Client == nil || s.Bucket == "" {
		return "", errors.New("s3blob: Client and Bucket are required")
	}
	if s.Key == nil {
		return Verbatim(name)
	}
	return s.Key(name)
}

func statusAndCode(err error) (status int, code string) {
	var resp *awshttp.ResponseError
	if errors.As(err, &resp) {
		status = resp.HTTPStatusCode()
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	return status, code
}

func (s Store) readError(key string, err error) error {
	// A HEAD has no body, so a missing bucket looks the same here; the write that follows distinguishes it.
	if status, code := statusAndCode(err); status == http.StatusNotFound && code != "NoSuchBucket" {
		return fmt.Errorf("s3://%s/%s: %w: %w", s.Bucket, key, blobfence.ErrNotFound, err)
	}
	return err
}

// putError separates refusals from what may have been applied. S3 answers 412 where the condition
// failed, 409 where another write was under way, and 404 for an If-Match on an object that has just
// been deleted. With any other 4xx it has not taken the request either.
func putError(err error) error {
	switch status, code := statusAndCode(err); {
	case status == http.StatusPreconditionFailed, status == http.StatusConflict, status == http.StatusNotFound && code == "NoSuchKey":
		return fmt.Errorf("%w: %w", blobfence.ErrChanged, err)
	case status >= 400 && status < 500:
		return fmt.Errorf("%w: %w", blobfence.ErrNotApplied, err)
	}
	return err
}
