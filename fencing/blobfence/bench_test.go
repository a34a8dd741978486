//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package blobfence_test

import (
	"strconv"
	"testing"

	"github.com/pawl-locks/pawl/fencing/blobfence"
	"github.com/pawl-locks/pawl/internal/testkit/pairbench"
)

// The cost that a Fence adds to a conditional write of 4 KiB in a directory, synced.
func BenchmarkDirWrite(b *testing.B) {
	body := make([]byte, 4<<10)
	d, at, n := blobfence.Dir{Path: b.TempDir()}, blobfence.Version(""), 0
	f := blobfence.Fence{Store: d}
	pairbench.Run(b,
		pairbench.Way{Name: "bare", Do: func() error {
			n++
			over := at
			at = blobfence.Version(strconv.Itoa(n))
			return d.Put(b.Context(), "bare", body, blobfence.Meta{Token: 57, Nonce: string(at)}, over)
		}},
		pairbench.Way{Name: "Fence", Do: func() error { return f.Write(b.Context(), "guarded", 57, body) }})
}
