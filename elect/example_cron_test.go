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

// everyMinute runs while this process leads.
func everyMinute(ctx context.Context, t *elect.Term) error {
	for tick := time.Tick(time.Minute); ; {
		log.Println("my turn, token", t.Token()) // the work goes here, and gets ctx and the token
		select {
		case <-tick:
		case <-ctx.Done(): // the term has ended, or the program is to end
			return nil
		}
	}
}

func Example_cron() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{"127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	host, _ := os.Hostname()
	err = elect.Run(ctx, client, "cleaning", elect.RunOptions{Value: []byte(host)}, everyMinute)
	log.Println(err)
}
