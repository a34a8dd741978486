package lock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
)

// report is the work: it must not run twice at a time.
func report(ctx context.Context, h *lock.Held) error {
	fmt.Println("holding", h.Name(), "with token", h.Token())
	return ctx.Err() // ctx ends when the lock is lost: pass it on to all that you call
}

func Example_program() {
	ctx := context.Background()
	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{"127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() // gives back all that is still held
	if err := lock.New(client, "reports/daily", lock.Options{}).Do(ctx, report); err != nil {
		log.Panic(err)
	}
}
