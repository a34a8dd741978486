package lock_test

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
)

// clean runs once for each full hour, on one of the machines.
func clean(ctx context.Context, h *lock.Held, at time.Time) error {
	log.Println("cleaning for", at, "with token", h.Token()) // the work goes here, and gets ctx and the token
	return ctx.Err()
}

// onFiring is called after each run, and when something keeps the job from running: then At is zero.
func onFiring(f lock.Firing) {
	switch {
	case f.Err == nil:
	case f.At.IsZero():
		log.Println("cleaning cannot run:", f.Err)
	default:
		log.Println("cleaning for", f.At, "failed:", f.Err)
	}
}

func ExampleMutex_Every() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{"127.0.0.1:2379"}, Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	hourly := lock.Interval(time.Hour, 0)
	err = lock.New(client, "cleaning", lock.Options{}).Every(ctx, hourly, clean, lock.EveryOptions{Notify: onFiring})
	log.Println(err)
}
