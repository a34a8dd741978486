package pawlgocron_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/adapters/pawlgocron"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// cleanup starts a scheduler. Of all schedulers that share the locker's names, one runs the
// job at each firing.
func cleanup(client *pawl.Client, work func(ctx context.Context) error) (gocron.Scheduler, error) {
	locker := pawlgocron.NewLocker(client, pawlgocron.LockerOptions{AtLeast: 30 * time.Second})
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return nil, err
	}
	run := func(ctx context.Context) error {
		ctx, done, err := locker.Context(ctx, "cleanup") // ends when the lock is lost
		if err != nil {
			return err
		}
		defer done()
		return work(ctx)
	}
	_, err = scheduler.NewJob(gocron.CronJob("*/5 * * * *", false), gocron.NewTask(run), gocron.WithName("cleanup"))
	if err != nil {
		return nil, err
	}
	scheduler.Start()
	return scheduler, nil
}

func ExampleLocker() {
	t := exampletb.Begin()
	defer t.End()
	client := pawltest.New(t).Client(t, pawl.Config{}) // in a program, pawl.Dial
	scheduler, err := cleanup(client, func(context.Context) error { return nil })
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(len(scheduler.Jobs()), scheduler.Shutdown())
	// Output: 1 <nil>
}

func ExampleElector() {
	t := exampletb.Begin()
	defer t.End()
	client := pawltest.New(t).Client(t, pawl.Config{}) // in a program, pawl.Dial

	elector := pawlgocron.NewElector(client, "cron", elect.RunOptions{Value: []byte("host-1")})
	defer elector.Close() // after the scheduler's shutdown
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Panic(err)
	}
	ran := make(chan struct{}, 1)
	_, err = scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(func() {
		select {
		case ran <- struct{}{}:
		default:
		}
	}))
	if err != nil {
		log.Panic(err)
	}
	scheduler.Start()
	<-ran
	fmt.Println("the leader runs its jobs")
	fmt.Println(scheduler.Shutdown())
	// Output:
	// the leader runs its jobs
	// <nil>
}
