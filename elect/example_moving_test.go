package elect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/lease"
)

// sharing campaigns under a name that programs with etcd's own client use, too.
func sharing(ctx context.Context, session *pawl.Session) (*elect.Term, error) {
	return elect.New(session, "/my-election", elect.Options{EtcdLayout: true}).Campaign(ctx, []byte("host-1"))
}

func ExampleOptions() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	session, err := s.client().Session(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	term, err := sharing(context.Background(), session)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.HasPrefix(term.Key(), "/my-election/"))
	// Output: true
}

// elections is the interface that stolon's sentinel has around etcd's election.
func elections(ctx context.Context, client *pawl.Client, id string) (elected chan bool, over chan error) {
	elected, over = make(chan bool, 1), make(chan error, 1)
	go func() { // ends with ctx
		over <- elect.Run(ctx, client, "sentinel", elect.RunOptions{Value: []byte(id)},
			func(ctx context.Context, t *elect.Term) error {
				elected <- true
				<-ctx.Done()
				elected <- false
				return nil
			})
	}()
	return elected, over
}

func Example_electedAndErrorChannels() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx, stop := context.WithCancel(context.Background())
	elected, over := elections(ctx, s.client(), "sentinel-1")
	fmt.Println(<-elected)
	stop()
	fmt.Println(<-elected)
	fmt.Println(errors.Is(<-over, context.Canceled))
	// Output:
	// true
	// false
	// true
}

// A latch leads in the background, while the program does other things.
type latch struct{ term atomic.Pointer[elect.Term] }

func (l *latch) run(ctx context.Context, client *pawl.Client, name string) error {
	return elect.Run(ctx, client, name, elect.RunOptions{}, func(ctx context.Context, t *elect.Term) error {
		l.term.Store(t)
		<-ctx.Done()
		return nil
	})
}

// leads looks at the clock, too: right after a pause it is right.
func (l *latch) leads() bool { return l.term.Load().Err() == nil } // a nil Term never led

func Example_latch() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx, stop := context.WithCancel(context.Background())
	var l latch
	fmt.Println(l.leads())
	over := make(chan error)
	client := s.client()
	go func() { over <- l.run(ctx, client, "latch") }()
	for !l.leads() {
		time.Sleep(time.Millisecond)
	}
	stop()
	fmt.Println(errors.Is(<-over, context.Canceled), l.leads())
	// Output:
	// false
	// true false
}

// rounds takes the lead, works, and queues again behind the others.
func rounds(ctx context.Context, client *pawl.Client, work func(ctx context.Context, t *elect.Term) error) error {
	for {
		if err := elect.Run(ctx, client, "rounds", elect.RunOptions{}, work); err != nil {
			return err
		}
	}
}

func Example_requeue() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	enough := errors.New("enough")
	n := 0
	err := rounds(context.Background(), s.client(), func(context.Context, *elect.Term) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	})
	fmt.Println(n, err)
	// Output: 3 enough
}

// untilLost runs a controller for one term: when that is lost, it returns the
// reason, for a program that is to end then.
func untilLost(ctx context.Context, client *pawl.Client, id string, controller func(ctx context.Context) error) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	return elect.Run(ctx, client, "controller", elect.RunOptions{
		Value:   []byte(id),
		Session: lease.Options{TTL: 15 * time.Second},
	}, func(ctx context.Context, t *elect.Term) error {
		err := controller(ctx)
		if lost := t.Err(); lost != nil {
			leave(lost) // instead of another campaign
		}
		return err
	})
}

func Example_untilLost() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	client := s.client()
	err := untilLost(context.Background(), client, "host-1", func(ctx context.Context) error {
		leader, err := elect.LeaderOf(ctx, client, "controller", elect.Options{})
		if err != nil {
			return err
		}
		s.etcd.Delete(leader.Key)
		<-ctx.Done()
		return ctx.Err()
	})
	fmt.Println(errors.Is(err, elect.ErrLost), errors.Is(err, elect.ErrKeyDeleted))
	// Output: true true
}
