package elect_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/lease"
)

// A process that does something else while another leads.
func ExampleElection_TryCampaign() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx := context.Background()

	// With a client, an Election outlives the sessions that its terms are on.
	term, err := elect.New(s.client(), "primary", elect.Options{}).TryCampaign(ctx, []byte("host-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	other := elect.New(s.client(), "primary", elect.Options{})
	_, err = other.TryCampaign(ctx, []byte("host-2"))
	fmt.Println("another leads:", errors.Is(err, elect.ErrBusy))
	fmt.Println(term.Resign(ctx))
	_, err = other.TryCampaign(ctx, []byte("host-2"))
	fmt.Println(err)
	// Output:
	// another leads: true
	// <nil>
	// <nil>
}

// Who leads, and who is a candidate behind it?
func ExampleElection_Queue() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx := context.Background()

	election := elect.New(s.client(), "primary", elect.Options{})
	term, err := election.Campaign(ctx, []byte("host-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer term.Resign(ctx)
	queue, err := election.Queue(ctx)
	for i, who := range queue {
		fmt.Println(i, who.Mode, who.Token == term.Token(), who.Lease == term.Session().ID())
	}
	fmt.Println(err)
	// Output:
	// 0 exclusive true true
	// <nil>
}

// Which term is it, has the leader's value changed, and on which lease does it lead?
func ExampleLeader() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx, client := context.Background(), s.client()

	term, err := elect.New(client, "primary", elect.Options{}).Campaign(ctx, []byte("starting"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer term.Resign(ctx)
	before, err := elect.LeaderOf(ctx, client, "primary", elect.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := term.Proclaim(ctx, []byte("ready")); err != nil {
		fmt.Println(err)
		return
	}
	after, err := elect.LeaderOf(ctx, client, "primary", elect.Options{})
	fmt.Println("the same term:", before.CreateRevision == after.CreateRevision)
	fmt.Println("another value:", before.ModRevision < after.ModRevision)
	fmt.Println("its session:", after.Lease == term.Session().ID(), err)
	// Output:
	// the same term: true
	// another value: true
	// its session: true <nil>
}

// A leader that stops while it still leads: no renewal is confirmed any more, and its
// context ends when a third of the validity is left.
func ExampleRunOptions_stopInJeopardy() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	options := elect.RunOptions{
		StopInJeopardy: true,
		Session:        lease.Options{TTL: 3 * time.Second},
	}
	err := elect.Run(ctx, s.client(), "reports", options, func(ctx context.Context, t *elect.Term) error {
		s.etcd.Cut() // etcd falls silent
		<-ctx.Done()
		fmt.Println(errors.Is(context.Cause(ctx), elect.ErrJeopardy), "still leading:", t.Err() == nil)
		s.etcd.Heal()
		stop() // the program ends, too
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// true still leading: true
	// true
}

// A process that leads only while it is fit to.
func ExampleRunOptions_eligible() {
	s := begin() // an etcd in memory, for the example
	defer s.end()

	checks := 0
	options := elect.RunOptions{
		MinBackoff: time.Millisecond,
		Eligible: func(context.Context) bool { // before each campaign, while it waits, and before lead
			checks++
			return checks >= 3 // up to date at last
		},
	}
	err := elect.Run(context.Background(), s.client(), "reports", options, func(context.Context, *elect.Term) error {
		fmt.Println("leading, after", checks, "checks")
		return nil
	})
	fmt.Println(err)
	// Output:
	// leading, after 4 checks
	// <nil>
}

// A function that does not return when its context has ended: after Overrun its term is
// lost, and so the others wait for its lease and no longer.
func ExampleRunOptions_overrun() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	options := elect.RunOptions{Overrun: 50 * time.Millisecond}
	_ = elect.Run(ctx, s.client(), "reports", options, func(ctx context.Context, t *elect.Term) error {
		stop()     // the program is to end …
		<-t.Done() // … and this function hangs, but for this
		fmt.Println(errors.Is(t.Err(), elect.ErrLost), errors.Is(t.Err(), elect.ErrOverrun))
		return nil
	})
	// Output: true true
}

// within is lead with a limit: if it has not returned so long after its context's end, exit is
// called with the cause.
func within(limit time.Duration, exit func(cause error), lead func(context.Context, *elect.Term) error) func(context.Context, *elect.Term) error {
	return func(ctx context.Context, t *elect.Term) error {
		returned := make(chan struct{})
		defer close(returned)
		context.AfterFunc(ctx, func() {
			select {
			case <-returned:
			case <-time.After(limit):
				exit(context.Cause(ctx))
			}
		})
		return lead(ctx, t)
	}
}

// A function that hangs when its term is lost. In a program, exit ends the process.
func ExampleRun_limit() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	hangs := make(chan struct{})
	exit := func(cause error) {
		fmt.Println(errors.Is(cause, elect.ErrKeyDeleted))
		stop()
		close(hangs)
	}
	control := func(_ context.Context, t *elect.Term) error {
		s.etcd.Delete(t.Key()) // an operator deletes its key
		<-hangs
		return nil
	}
	_ = elect.Run(ctx, s.client(), "controller", elect.RunOptions{}, within(50*time.Millisecond, exit, control))
	// Output: true
}
