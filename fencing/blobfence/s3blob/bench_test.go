package s3blob_test

import (
	"bytes"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/pawl-locks/pawl/fencing/blobfence"
	"github.com/pawl-locks/pawl/internal/testkit/pairbench"
)

// The cost that a Fence adds to a conditional PutObject of 4 KiB, on a gateway on this machine:
// the read before it, which VerifyRead doubles.
func BenchmarkWrite(b *testing.B) {
	g := start(b)
	body := make([]byte, 4<<10)
	var at *string
	once, twice := g.store(), g.store()
	once.VerifyRead = false
	pairbench.Run(b,
		pairbench.Way{Name: "bare", Do: func() error {
			in := &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String("bare"), Body: bytes.NewReader(body), IfMatch: at}
			out, err := g.client.PutObject(b.Context(), in)
			if err == nil {
				at = out.ETag
			}
			return err
		}},
		pairbench.Way{Name: "Fence", Do: func() error { return blobfence.Fence{Store: once}.Write(b.Context(), "once", 57, body) }},
		pairbench.Way{Name: "VerifyRead", Do: func() error { return blobfence.Fence{Store: twice}.Write(b.Context(), "twice", 57, body) }})
}
