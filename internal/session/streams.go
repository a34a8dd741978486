package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// Renewals is what the renewals of a client's sessions share: LeaseKeepAlive streams, which are kept
// from one renewal to the next, for opening and closing one costs a server more than the renewal does,
// and batches. The zero Renewals is ready.
//
// Invariants: a kept stream owes no answer, and belongs to no renewal (rule N2);
// none is kept, and no batch is under way, while no session renews.
type Renewals struct {
	mu       sync.Mutex
	sessions int                           // that renew
	kept     map[*cluster.Member][]*stream // the last one used last

	batcher batcher
	timer   *time.Timer     // for the next batch
	wake    time.Time       // when it fires; zero: it does not
	life    context.Context // of batches: while any session renews
	die     context.CancelFunc
}

// maxKept is how many streams of one member are kept: as many as sessions that
// renew each by itself use at one time.
const maxKept = 8

// A stream is one LeaseKeepAlive stream. One renewal at a time has it.
type stream struct {
	member *cluster.Member
	token  string // with which it was opened
	rpc    pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

// begin says that a session renews from now on, until it ends.
func (r *Renewals) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions++; r.sessions == 1 {
		r.life, r.die = context.WithCancel(context.Background())
	}
}

// end ends what begin began. The last session to end has the streams closed.
func (r *Renewals) end(host Host) {
	r.mu.Lock()
	r.sessions--
	var rest []*stream
	if r.sessions == 0 {
		r.die()
		if !r.wake.IsZero() {
			r.timer.Stop()
			r.wake = time.Time{}
		}
		for _, list := range r.kept {
			rest = append(rest, list...)
		}
		r.kept = nil
	}
	r.mu.Unlock()
	if len(rest) > 0 && !host.Cleanup.Go("streams of renewals", func(context.Context) { finish(rest...) }) {
		for _, st := range rest {
			st.cancel()
		}
	}
}

// take takes a kept stream of m that was opened with token; nil: there is none.
func (r *Renewals) take(m *cluster.Member, token string) *stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.kept[m]
	for i := len(list) - 1; i >= 0; i-- {
		st := list[i]
		list = list[:i]
		r.kept[m] = list
		if st.token == token {
			return st
		}
		st.cancel() // the server would check each renewal with a token that was replaced
	}
	return nil
}

// keep keeps st, whose every renewal was answered in time, for the next one. It
// returns what is to be finished instead: what is too much, and streams of members that
// the client no longer uses.
func (r *Renewals) keep(st *stream) (rest []*stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions == 0 || len(r.kept[st.member]) >= maxKept {
		rest = append(rest, st)
	} else {
		if r.kept == nil {
			r.kept = make(map[*cluster.Member][]*stream)
		}
		r.kept[st.member] = append(r.kept[st.member], st)
	}
	for m, list := range r.kept {
		if m.Retired() {
			rest = append(rest, list...)
			delete(r.kept, m)
		}
	}
	return rest
}

// openStream opens a stream to m with what ctx, which is of Cluster.Outgoing, sends
// along. The stream outlives ctx; the opening does not.
func openStream(ctx context.Context, m *cluster.Member, token string) (*stream, error) {
	md, _ := metadata.FromOutgoingContext(ctx)
	life, cancel := context.WithCancel(metadata.NewOutgoingContext(context.Background(), md))
	stop := context.AfterFunc(ctx, cancel)
	rpc, err := m.Lease().LeaseKeepAlive(life)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{member: m, token: token, rpc: rpc, cancel: cancel}, nil
}

// renew sends the renewals of parts and takes their answers, until ctx ends; answered is how
// many of them had theirs, from the first on. Answers come in the order of the renewals, and each
// counts for the one renewal of its lease that is outstanding. After an error, or where
// ctx ended first, the stream is over: what it may yet answer is dropped with it.
func (st *stream) renew(ctx context.Context, c *cluster.Cluster, parts []*part) (answered int, err error) {
	stop := context.AfterFunc(ctx, st.cancel)
	defer func() {
		if !stop() && err == nil {
			answered, err = 0, ctx.Err()
		}
		if err != nil {
			st.cancel()
		}
	}()
	for i, p := range parts {
		p.sent = clock.Now() // before its message is written (rule T2)
		if err := st.rpc.Send(&pb.LeaseKeepAliveRequest{ID: p.s.id}); errors.Is(err, io.EOF) {
			parts = parts[:i+1] // Recv has the reason
			break
		} else if err != nil {
			return 0, err
		}
	}
	for _, p := range parts {
		answer, err := st.rpc.Recv()
		switch {
		case err != nil:
			return answered, err
		case answer.ID != p.s.id:
			return answered, fmt.Errorf("the answer is for lease %x", answer.ID)
		}
		if err := c.Check(st.member, answer.Header, 0, false); err != nil {
			return answered, err
		}
		p.answer = answer
		answered++
	}
	return answered, nil
}

// halfClose says on streams that no renewal follows. Their ends come while
// something else is done.
func halfClose(streams []*stream) {
	for _, st := range streams {
		_ = st.rpc.CloseSend()
	}
}

// finishFor is how long the end of a stream is waited for.
const finishFor = 100 * time.Millisecond

// finish closes streams whose every renewal was answered, and waits for their
// ends, so that the server records clean ones. What does not end is cancelled.
func finish(streams ...*stream) {
	halfClose(streams)
	for _, st := range streams {
		defer st.cancel()
		defer time.AfterFunc(finishFor, st.cancel).Stop()
	}
	for _, st := range streams {
		_, _ = st.rpc.Recv()
	}
}
