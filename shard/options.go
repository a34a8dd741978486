package shard

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/lease"
)

// MaxShards is how many shards a name has at most.
const MaxShards = keys.MaxShards

// Options are the options of Run. The zero value is the default.
type Options struct {
	// Weight is this worker's share relative to the others'. A worker of weight 2 gets twice as many
	// shards as one of weight 1. 0 means 1. It is at most 10,000. A worker with a negative weight gets
	// no shards, and only takes part in the planning.
	Weight int
	// Value is shown by Observe with each of this worker's shards. It may be an address, for example.
	// It is at most 1 KiB.
	Value []byte
	// ID, unless empty, names this worker's place: a pod of a stateful set, a machine, a slot. It is at
	// most 256 bytes. A worker that dies and comes back with the same ID within the TTL takes back its
	// shards, and no other shard moves. One that has died repeatedly, each time within four minutes,
	// gets nothing for a TTL, and longer each time, up to 5 min; and a shard with which three such
	// workers in a row have died rests. If two workers that run have one ID, the earlier gives all its
	// shards to the later.
	ID string
	// Prepare, unless nil, is called before this worker queues for a shard, while the old owner still
	// works on it. It can load the shard's state ahead of time. Its ctx ends when the shard is no
	// longer wanted. If it returns an error, the shard goes to another worker, as after a work that
	// fails. It may be called for several shards at once.
	Prepare func(ctx context.Context, shard int) error
	// Overrun is how long work may go on after ErrMoved. After that the shard is taken from it: the
	// Held is lost, with ErrMoved as the cause, and its key is deleted a margin later, or a lock-delay
	// after that. Storage has to refuse, by the token, what work writes after the loss. If Overrun is 0,
	// Run waits forever for work.
	Overrun time.Duration
	// Stall, unless 0, ends a hold when its work has not called Held.Progress for that long: the shard is
	// lost with lock.ErrStalled, its key is deleted, and it goes to another worker, even while work still
	// runs. It is for work that can hang while its session is renewed. The time counts from each call of
	// work. The shard has failed here, so a worker on which three shards hang gets one at a time. Run
	// waits for work as for any other, and a program that cannot end its work should exit at Lost with
	// lock.ErrStalled. At least 1 s; see lock.Options.Stall.
	Stall time.Duration
	// Moves bounds how many shards this worker gains at once, and how many it gives up at once. A shard
	// that takes longer than a TTL, because its Prepare, its work or its owner's work hangs, does not
	// count any more. 0 means no bound.
	Moves int
	// Load, unless nil, returns what a shard costs now, in any unit that is the same for all workers:
	// messages, bytes or CPU seconds a second. With it, loads are evened out in place of numbers. It is
	// what the shard costs whoever works on it. A backlog, or a part of this machine, is no load, because
	// moving the shard does not lower the one and changes the other. 0 is an idle shard.
	//
	// It is called for each shard that this worker holds, one after the other, each eighth of the TTL, at
	// least 1 s apart, from a goroutine of its own. If it panics, or what it returns is not finite or is
	// negative, the shard keeps its load for a TTL and then counts as the mean; so do all shards if it does
	// not return. Then the client's logger gets a warning, and one when that ends. Run does not wait for it
	// for longer than a second.
	Load func(shard int) float64
	// Session is the options of each session. Resume is refused.
	Session lease.Options
	// Notify, unless nil, is called with every change, in order, from Run's goroutine. It should return
	// quickly, because Run waits for it. If it panics, the session is closed, so that every shard is
	// lost, and the panic continues.
	Notify func(Event)
}

// check reports what is wrong with o, naming the field.
func (o Options) check() error {
	switch {
	case o.Weight > shards.MaxWeight:
		return fmt.Errorf("Options.Weight is %d, want at most %d", o.Weight, shards.MaxWeight)
	case len(o.Value) > shards.MaxValue:
		return fmt.Errorf("Options.Value has %d bytes, want at most %d", len(o.Value), shards.MaxValue)
	case len(o.ID) > shards.MaxID:
		return fmt.Errorf("Options.ID has %d bytes, want at most %d", len(o.ID), shards.MaxID)
	case !utf8.ValidString(o.ID):
		return fmt.Errorf("Options.ID is %q, want UTF-8", o.ID)
	case o.Overrun < 0:
		return fmt.Errorf("Options.Overrun is %v, want 0 or more", o.Overrun)
	case o.Stall != 0 && o.Stall < queue.MinStall:
		return fmt.Errorf("Options.Stall is %v, want 0 or at least %v", o.Stall, queue.MinStall)
	case o.Moves < 0:
		return fmt.Errorf("Options.Moves is %d, want 0 or more", o.Moves)
	case o.Session.Resume != (lease.Handle{}):
		return errors.New("Options.Session.Resume is set: a worker's session is never a resumed one")
	}
	if err := o.Session.Check(); err != nil {
		return fmt.Errorf("Options.Session: %w", err)
	}
	return nil
}

// Kind says what an Event reports.
type Kind int

// The kinds of events.
const (
	Joined   Kind = iota + 1 // a session was made, and others know of this worker
	Acquired                 // the shard is held; work is called next
	Moving                   // another worker waits for the shard: work's context ended with ErrMoved
	Released                 // the shard was released
	Lost                     // the shard was held, and has been lost
	Failed                   // work returned unasked, Prepare failed, or the shard could not be queued for; it is not taken for a while
	Retrying                 // a session could not be made, or has ended; Run tries again
	SameID                   // two workers that run have this worker's Options.ID; the later one has the place
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if name, ok := map[Kind]string{Joined: "joined", Acquired: "acquired", Moving: "moving", Released: "released",
		Lost: "lost", Failed: "failed", Retrying: "retrying", SameID: "same id"}[k]; ok {
		return name
	}
	return fmt.Sprintf("kind %d", int(k))
}

// An Event is one change that Run reports.
type Event struct {
	Kind  Kind
	Shard int           // -1 for Joined, Retrying and SameID
	Token fencing.Token // of the hold; 0 if there is none
	// Err depends on Kind. For Lost, it is the error of Held.Err; its text also names a work that has
	// stalled and still runs. For Failed, it is what work or
	// Prepare returned, which is nil if work returned nil, or why the shard could not be queued for.
	// For Retrying, it is what failed. For Released, it is what work returned after ErrMoved, other
	// than the end of its context, and that the release is not confirmed yet and continues in the
	// background.
	Err error
}
