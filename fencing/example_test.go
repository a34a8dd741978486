package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/pawl-locks/pawl/fencing"
)

// A service that owns its state asks the gate under the mutex of that state. A new holder reads
// first, which registers its token.
func ExampleGate() {
	var (
		gate    fencing.Gate
		mu      sync.Mutex
		balance = 100
	)
	read := func(t fencing.Token) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return balance, gate.Admit("account/7", t)
	}
	write := func(t fencing.Token, value int) error {
		mu.Lock()
		defer mu.Unlock()
		if err := gate.Admit("account/7", t); err != nil {
			return err
		}
		balance = value
		return nil
	}

	seen, _ := read(41) // the first holder, which is then paused past its lease
	now, _ := read(57)  // the next one
	_ = write(57, now-30)

	err := write(41, seen-50) // the first one wakes
	var stale *fencing.StaleError
	fmt.Println(errors.As(err, &stale), err)
	fmt.Println("balance", balance)
	// Output:
	// true fencing: stale token 41 for "account/7": 57 was seen
	// balance 70
}

// A service that restarts saves the gate with its state, and restores it before it serves.
func ExampleGate_Snapshot() {
	dir, err := os.MkdirTemp("", "gate")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "gate")

	var before fencing.Gate
	_ = before.Admit("jobs/42", 57)
	if err := os.WriteFile(file, before.Snapshot(), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	var after fencing.Gate
	saved, err := os.ReadFile(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(after.Restore(saved))
	fmt.Println(after.Admit("jobs/42", 41))
	// Output:
	// <nil>
	// fencing: stale token 41 for "jobs/42": 57 was seen
}

// The innermost token travels in a context.
func ExampleFromContext() {
	ctx := fencing.NewContext(context.Background(), "jobs/42", 57)
	fmt.Println(fencing.FromContext(ctx))
	fmt.Println(fencing.FromContext(fencing.NewContext(ctx, "jobs/43", 0)))
	// Output:
	// jobs/42 57 true
	//  0 false
}
