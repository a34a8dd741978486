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

// Renewals is what the renewals of a client's sessions share: batches, and LeaseKeepAlive
// streams, which are kept from one renewal to the next because opening and closing a stream
// costs a server more than the renewal. The zero Renewals is ready.
//
// Invariants: no answer is outstanding on a kept stream, and no renewal uses it (rule N2); no
// stream is kept, and no batch is under way, while no session renews.
type Renewals struct {
	mu       sync.Mutex
	sessions int                           // how many sessions renew
	kept     map[*cluster.Member][]*stream // the most recently used one last

	batcher batcher
	timer   *time.Timer     // for the next batch
	wake    time.Time       // when it fires; zero: it is not set
	life    context.Context // of batches: ends when no session renews
	die     context.CancelFunc
}

// maxKept is how many streams of one member are kept: as many as sessions that renew alone use
// at a time.
const maxKept = 8

// A stream is one LeaseKeepAlive stream, used by one renewal at a time.
type stream struct {
	member *cluster.Member
	token  string // the token with which it was opened
	rpc    pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

// begin says that a session renews from now on, until it calls end.
func (r *Renewals) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions++; r.sessions == 1 {
		r.life, r.die = context.WithCancel(context.Background())
	}
}

// end says that a session no longer renews. When the last one ends, the streams are closed.
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

// take removes and returns a kept stream of m that was opened with token; nil: there is none.
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
		st.cancel() // its token was replaced, and the server would check the old one at each renewal
	}
	return nil
}

// keep keeps st, whose renewals were all answered in time, for the next renewal. It returns the
// streams to be closed instead: those beyond maxKept, and those of members that the client no
// longer uses.
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

// openStream opens a stream to m with the metadata of ctx, which Cluster.Outgoing made. ctx
// bounds the opening and not the stream.
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

// renew sends the renewals of parts and receives their answers, until ctx ends. answered is how
// many parts, from the first on, have their answers. Answers come in the order of the renewals,
// and each counts only for the one outstanding renewal of its lease. After an error, or if ctx
// ended first, the stream is closed, and late answers are dropped with it.
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
			parts = parts[:i+1] // Recv returns the reason
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

// halfClose tells the servers that no renewal follows on streams, so that they end while the
// caller does something else.
func halfClose(streams []*stream) {
	for _, st := range streams {
		_ = st.rpc.CloseSend()
	}
}

// finishFor is how long finish waits for the end of a stream.
const finishFor = 100 * time.Millisecond

// finish closes streams whose renewals were all answered, and waits for their ends, so that the
// server records a clean end. A stream that does not end in time is cancelled.
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
