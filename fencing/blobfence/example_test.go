//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package blobfence_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pawl-locks/pawl/fencing/blobfence"
)

func ExampleFence() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "blobfence")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	fence := blobfence.Fence{Store: blobfence.Dir{Path: dir}}

	_, err = fence.Read(ctx, "state.json", 41) // registers the token, also where there is nothing yet
	fmt.Println(errors.Is(err, blobfence.ErrNotFound))
	fmt.Println(fence.Write(ctx, "state.json", 41, []byte(`{"n":1}`)))

	body, err := fence.Read(ctx, "state.json", 57) // the next holder
	fmt.Println(string(body), err)
	fmt.Println(fence.Write(ctx, "state.json", 41, []byte(`{"n":2}`))) // the first one, late
	// Output:
	// true
	// <nil>
	// {"n":1} <nil>
	// fencing: stale token 41 for "state.json": 57 was seen
}
