//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package blobfence_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing/blobfence"
)

// What a Fence adds to a conditional write of 4 KiB in a directory, synced.
func BenchmarkDirWrite(b *testing.B) {
	body := make([]byte, 4<<10)
	b.Run("bare", func(b *testing.B) {
		d := blobfence.Dir{Path: b.TempDir()}
		at := blobfence.Version("")
		for n := 0; b.Loop(); n++ {
			nonce := strconv.Itoa(n)
			require.NoError(b, d.Put(b.Context(), name, body, blobfence.Meta{Token: 57, Nonce: nonce}, at))
			at = blobfence.Version(nonce)
		}
	})
	b.Run("Fence", func(b *testing.B) {
		f := blobfence.Fence{Store: blobfence.Dir{Path: b.TempDir()}}
		for b.Loop() {
			require.NoError(b, f.Write(b.Context(), name, 57, body))
		}
	})
}
