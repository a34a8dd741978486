package elect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/internal/session"
)

// Options are the options of an Election. The zero value is the default.
type Options struct {
	// EtcdLayout uses the name verbatim as the key prefix, so that pawl excludes and observes,
	// and is excluded and observed by, clientv3's concurrency.Election and etcdctl elect on the
	// same name. Because they use the same keys, that also holds for concurrency.Mutex and for
	// lock.Mutex with its EtcdLayout. Names then collide as they do there: a candidate of "a/b"
	// is a candidate of "a" too.
	EtcdLayout bool
	// Owner is written beside the candidate's key, for people to read: Queue and pawl ls show it.
	// It is meant for a process that leads on behalf of others. "" means the session's owner,
	// lease.Options.Owner. It has at most 1 KiB.
	Owner string
	// Stall, unless 0, ends the term when Term.Progress was not called for that long: it is lost with
	// ErrStalled, and its key is deleted in the background. The time counts from the moment when
	// Campaign, or Resume, succeeded, and again from each Progress. At least 1 s; see lock.Options.Stall.
	Stall time.Duration
}

// An Election is a name and a source of sessions. It never changes state: each campaign is a
// separate candidacy, and any number of goroutines may use one Election.
type Election struct {
	sessions pawl.Sessions
	name     string
	opts     Options
	says     time.Duration // the Stall that the candidate's owner key shows
}

// New returns an Election; it does no I/O. With a *pawl.Client, each call uses the client's current
// session; with a *pawl.Session, every call uses that one. The first call reports invalid
// arguments: nil sessions, an empty name or one of more than 1 KiB, an Owner of more than 1 KiB, an
// EtcdLayout name that would contain the keys of sessions, a Stall below 1 s.
func New(s pawl.Sessions, name string, opts Options) *Election {
	return &Election{sessions: s, name: name, opts: opts, says: opts.Stall}
}

// Name returns the election's name, as it was given.
func (e *Election) Name() string {
	if e == nil {
		return ""
	}
	return e.name
}

// Campaign queues as a candidate with value, and waits until it leads. It returns an error when ctx
// ends, even in the instant of success; when the session has ended, with the session's cause and no
// other; and when its key is deleted or overwritten while it waits. If ctx never ends it waits as
// long as the session lasts. A client that has no valid session gets one first, as Client.Session
// does; if that fails, so does Campaign. After any error the candidate's queue key is deleted in
// the background. The value is copied; observers see it while the term lasts. A value that begins
// as those of locks' keys do, such as with pawl: or {"pawl":"lock", is refused.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Term, error) {
	return e.campaign(ctx, "campaign", value, false, nil)
}

// TryCampaign is Campaign without waiting: if another leads or is a candidate, it fails with
// ErrBusy at once and writes nothing under the name.
func (e *Election) TryCampaign(ctx context.Context, value []byte) (*Term, error) {
	return e.campaign(ctx, "try to campaign", value, true, nil)
}

// campaign calls enqueued, unless nil, once it waits.
func (e *Election) campaign(ctx context.Context, op string, value []byte, try bool, enqueued func()) (*Term, error) {
	err := checkValue(value)
	if err == nil {
		var t *Term
		if t, err = e.with(ctx, func(s *session.Session, q queue.Queue) (*queue.Acquisition, error) {
			return queue.Acquire(ctx, s, queue.Request{Value: bytes.Clone(value), Try: try, Owner: e.owner(s), Enqueued: enqueued, Limits: queue.Limits{Stall: e.opts.Stall}}, q)
		}); err == nil {
			return t, nil
		}
	}
	return nil, failed(op, e.Name(), ctx, err)
}

// owner returns the value of the candidate's owner key, or nil if it has none.
func (e *Election) owner(s *session.Session) []byte {
	if e.opts.Owner == "" && e.says == 0 {
		return nil
	}
	return keys.WithStall(s.OwnerValue(e.opts.Owner), e.says)
}

// checkValue refuses a value that begins as the values of locks' keys do. A lock of the same name
// would take the candidate's key for a waiter's, and write to it. Resume would take it for a
// lock's, which no Election can resume.
func checkValue(value []byte) error {
	if keys.OfLock(value) {
		return fmt.Errorf("the value begins with %s, as the keys of locks do", keys.MarkOf(value))
	}
	return nil
}

// Resume returns the Term of a key with which this session's predecessor led, if the session was
// made with lease.Options.Resume. key and t are the predecessor's Term.Key and Term.Token. It
// queries the cluster, in one transaction. The error matches ErrLost if the key no longer exists.
// The token, and the value that observers see, stay the same.
func (e *Election) Resume(ctx context.Context, key string, t fencing.Token) (*Term, error) {
	term, err := e.with(ctx, func(s *session.Session, q queue.Queue) (*queue.Acquisition, error) {
		return queue.Resume(ctx, s, []string{key}, t, queue.Limits{Stall: e.opts.Stall}, q)
	})
	if err != nil {
		return nil, failed("resume", e.Name(), ctx, err)
	}
	return term, nil
}

// with returns a Term of the acquisition that get returns, on the current session.
func (e *Election) with(ctx context.Context, get func(*session.Session, queue.Queue) (*queue.Acquisition, error)) (*Term, error) {
	if err := e.check(ctx); err != nil {
		return nil, err
	}
	session, err := e.sessions.Session(ctx)
	if err != nil {
		return nil, err
	}
	s := hooks.SessionOf(session)
	if s == nil {
		return nil, errors.New("nil session")
	}
	q, err := queue.New(s.Host().Namespace, e.name, e.opts.EtcdLayout)
	if err != nil {
		return nil, err
	}
	q.Election = true
	c, err := get(s, q)
	if err != nil {
		return nil, err
	}
	return newTerm(c, session), nil
}

// check returns what is wrong before anything is sent to the cluster.
func (e *Election) check(ctx context.Context) error {
	switch {
	case e == nil:
		return errors.New("nil Election")
	case ctx == nil:
		return errors.New("nil context")
	case e.sessions == nil:
		return errors.New("nil session")
	}
	opts := queue.Options{EtcdLayout: e.opts.EtcdLayout, Owner: e.opts.Owner, Limits: queue.Limits{Stall: e.opts.Stall}}
	if err := opts.Check([]queue.Want{{Name: e.name}}); err != nil {
		return err
	}
	if err := hooks.Carry(e.sessions, e.name, nil); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
