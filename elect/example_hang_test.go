package elect_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
)

// step is one piece of the work. The third one hangs.
func step(n int) {
	if n == 3 {
		select {} // a call without a timeout, a deadlock, a full disk
	}
	time.Sleep(time.Second)
}

// lead works while this process leads, and says after each step that it got something done.
func lead(ctx context.Context, t *elect.Term) error {
	for n := 1; t.Progress() == nil && ctx.Err() == nil; n++ {
		step(n)
		log.Println("step", n, "is done, token", t.Token())
	}
	return nil
}

// onEvent ends the process when its lead hangs. Whoever started it starts it again.
func onEvent(ev elect.Event) {
	log.Println(ev.Kind, ev.Token, ev.Err)
	if ev.Kind == elect.Stalled {
		os.Exit(1)
	}
}

func Example_hang() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{"127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = elect.Run(ctx, client, "scheduler", elect.RunOptions{Stall: 15 * time.Second, Notify: onEvent}, lead)
	log.Println(err)
}
