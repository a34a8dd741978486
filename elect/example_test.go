package elect_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
)

// The loop around a term, and what it reports.
func ExampleRun() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx, client := context.Background(), s.client()

	terms := 0
	err := elect.Run(ctx, client, "reports", elect.RunOptions{
		Value:      []byte("host-1"),
		MinBackoff: 10 * time.Millisecond,
		Notify:     func(ev elect.Event) { fmt.Println(ev.Kind, ev.Term, errors.Is(ev.Err, elect.ErrKeyDeleted)) },
	}, func(ctx context.Context, t *elect.Term) error {
		if terms++; terms == 2 {
			return nil // done: Run resigns, and returns nil
		}
		s.etcd.Delete(t.Key()) // an operator deletes its key
		<-ctx.Done()           // stop what is under way …
		return ctx.Err()       // … and return: Run campaigns again
	})
	fmt.Println(err)
	// Output:
	// elected 1 false
	// lost 1 true
	// elected 2 false
	// resigned 2 false
	// <nil>
}

// announce leads once, with a value that changes.
func announce(ctx context.Context, session *pawl.Session) error {
	term, err := elect.New(session, "primary", elect.Options{}).Campaign(ctx, []byte("10.0.0.7:5432 starting"))
	if err != nil {
		return err // not leading; the queue key is deleted in the background
	}
	defer term.Resign(ctx)
	if err := term.Proclaim(ctx, []byte("10.0.0.7:5432 ready")); err != nil {
		return err
	}
	for step := range 3 {
		if err := term.Err(); err != nil { // asked right before each step
			return err
		}
		fmt.Println("step", step)
	}
	return nil
}

func ExampleElection_Campaign() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	session, err := s.client().Session(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(announce(context.Background(), session))
	// Output:
	// step 0
	// step 1
	// step 2
	// <nil>
}

// follow calls dial with each leader's address, and with "" while nobody leads.
func follow(ctx context.Context, client *pawl.Client, dial func(address string, t fencing.Token)) error {
	for leader, err := range elect.Observe(ctx, client, "primary", elect.Options{}) {
		if err != nil {
			return err // ctx has ended, or the client is closed: there is nothing more to be seen
		}
		dial(string(leader.Value), leader.Token)
	}
	return nil
}

func ExampleObserve() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	session, err := s.client().Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	var term *elect.Term
	err = follow(ctx, s.client(), func(address string, t fencing.Token) {
		fmt.Printf("%q, token: %v\n", address, t != 0)
		switch {
		case term == nil:
			term, _ = elect.New(session, "primary", elect.Options{}).Campaign(ctx, []byte("10.0.0.7:5432"))
		case t != 0:
			_ = term.Resign(ctx)
		default:
			stop()
		}
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// "", token: false
	// "10.0.0.7:5432", token: true
	// "", token: false
	// true
}

func ExampleLeaderOf() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx, client := context.Background(), s.client()

	_, err := elect.LeaderOf(ctx, client, "primary", elect.Options{})
	fmt.Println(errors.Is(err, elect.ErrNoLeader))

	session, err := client.Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	term, err := elect.New(session, "primary", elect.Options{}).Campaign(ctx, []byte("10.0.0.7:5432"))
	if err != nil {
		fmt.Println(err)
		return
	}
	leader, err := elect.LeaderOf(ctx, client, "primary", elect.Options{})
	fmt.Printf("%s %v %v\n", leader.Value, leader.Token == term.Token(), err)
	// Output:
	// true
	// 10.0.0.7:5432 true <nil>
}

// assign writes to etcd as the leader: what a former leader sends, even late, is
// refused by etcd itself.
func assign(ctx context.Context, client *pawl.Client, term *elect.Term, job, worker string) error {
	_, err := client.KV().Txn(ctx, kv.Txn{
		Guards: []kv.Guard{term.Guard()},
		Then:   []kv.Op{kv.Put("assignments/"+job, []byte(worker))},
	})
	return err
}

func ExampleTerm_Guard() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx, client := context.Background(), s.client()
	session, err := client.Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	term, err := elect.New(session, "scheduler", elect.Options{}).Campaign(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(assign(ctx, client, term, "42", "worker-3"))
	s.etcd.Delete(term.Key())
	fmt.Println(errors.Is(assign(ctx, client, term, "42", "worker-5"), kv.ErrFenced))
	// Output:
	// <nil>
	// true
}

// A note is what a process leaves to the one that it is replaced by, in a file
// or in the environment.
type note struct {
	Session lease.Handle
	Key     string
	Token   fencing.Token
}

// handOver ends the term here, and not in etcd: nobody else is elected.
func handOver(session *pawl.Session, term *elect.Term) note {
	return note{session.Detach(), term.Key(), term.Token()}
}

// takeOver goes on with the term, under the same token.
func takeOver(ctx context.Context, client *pawl.Client, n note) (*pawl.Session, *elect.Term, error) {
	session, err := client.NewSession(ctx, lease.Options{Resume: n.Session})
	if err != nil {
		return nil, nil, err // lease.ErrRevoked: too late, campaign again
	}
	term, err := elect.New(session, "primary", elect.Options{}).Resume(ctx, n.Key, n.Token)
	return session, term, err
}

func ExampleElection_Resume() {
	s := begin() // an etcd in memory, for the example
	defer s.end()
	ctx := context.Background()
	session, err := s.client().NewSession(ctx, lease.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	term, err := elect.New(session, "primary", elect.Options{}).Campaign(ctx, []byte("host-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	n := handOver(session, term)
	fmt.Println("here:", errors.Is(term.Err(), lease.ErrClosed))

	_, next, err := takeOver(ctx, s.client(), n) // in another process
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("there:", next.Err(), next.Token() == term.Token())
	// Output:
	// here: true
	// there: <nil> true
}
