package watcher

import (
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// maxHeld bounds the events of one revision that came in fragments, which were not asked for.
const maxHeld = 1 << 20

// answer takes what the link's reader has read. An error ends the link.
func (s *stream) answer(r *pb.WatchResponse, now time.Time) error {
	c, l := s.hub.cluster, s.link
	if err := c.Check(l.member, r.Header, 0, false); err != nil {
		return &linkError{err, l.token, true}
	}
	s.pulse.heard(now)
	if l.worked.IsZero() {
		l.worked = now
		c.TokenAccepted(l.member, l.token)
		c.Worked(l.member)
	}
	if r.Created {
		return s.answered(r, now)
	}
	if err := s.deliver(r); err != nil {
		return err
	}
	if r.Canceled || r.CompactRevision > 0 {
		return s.ended(r)
	}
	return nil
}

// answered takes the answer to the first unanswered creation: etcd answers creations in order. A refusal is known by the
// watch ID -1, which says nothing about whose it is; any other ID must be the one we gave, or the answer is a repetition.
func (s *stream) answered(r *pb.WatchResponse, now time.Time) error {
	switch i := s.askedFor(r.WatchId); {
	case len(s.asks) == 0 || i < 0 && r.WatchId != -1:
		return nil
	case i > 0:
		return &linkError{errOrder, s.link.token, true}
	}
	id, w := s.asks[0].id, s.asks[0].watch
	s.asked -= s.asks[0].bytes
	s.asks = s.asks[1:]
	s.pulse.answered(now, len(s.asks))
	if r.Canceled || r.WatchId == -1 {
		if w != nil && r.CompactRevision > w.next {
			s.finish(w, Update{Compacted: r.CompactRevision})
			return nil
		}
		return s.refused(w, r.CancelReason)
	}
	if w == nil {
		s.link.cancelWatch(id) // cancelled meanwhile, or an echo that was not refused
		return nil
	}
	w.place, w.id = living, id
	s.live[id] = w
	w.acknowledged()
	return s.deliver(r)
}

// askedFor is where in asks the creation of id is; below 0: nowhere.
func (s *stream) askedFor(id int64) int {
	return slices.IndexFunc(s.asks, func(a asked) bool { return a.id == id })
}

// deliver gives the events of an answer to their watch. Answers for watches that are over have none.
func (s *stream) deliver(r *pb.WatchResponse) error {
	w := s.live[r.WatchId]
	if i := s.askedFor(r.WatchId); w == nil && i >= 0 {
		w = s.asks[i].watch // etcd acknowledges first; events that came before would be lost otherwise
	}
	if w == nil {
		return nil
	}
	out, rest := advance(w.span, w.next, s.held[r.WatchId], r.Events, r.Fragment)
	if len(rest) > maxHeld {
		return &linkError{errBloat, s.link.token, true}
	}
	s.hold(r.WatchId, rest)
	if len(out) == 0 {
		return nil
	}
	last := out[len(out)-1].ModRevision
	w.next = last + 1
	w.call(Update{Events: out, Revision: last})
	w.share(out)
	return nil
}

// hold keeps evs, in place of what was held back for this watch.
func (s *stream) hold(id int64, evs []*mvccpb.Event) {
	if len(evs) == 0 {
		delete(s.held, id)
		return
	}
	if s.held == nil {
		s.held = map[int64][]*mvccpb.Event{}
	}
	s.held[id] = evs
}

// ended takes the server's word that a watch is over there. For watches that we cancelled, it is expected.
func (s *stream) ended(r *pb.WatchResponse) error {
	w := s.live[r.WatchId]
	if w == nil {
		return nil
	}
	if r.CompactRevision > w.next {
		// etcd keeps a compacted watch in its books, where it also keeps progress requests from being
		// answered, until it is cancelled: finish does that.
		s.finish(w, Update{Compacted: r.CompactRevision})
		return nil
	}
	delete(s.live, w.id)
	delete(s.held, w.id)
	return s.refused(w, r.CancelReason)
}

// refused deals with w, which the server did not create, or ended, for reason; w is in no list. w is nil if it was an echo or
// was cancelled meanwhile.
func (s *stream) refused(w *Watch, reason string) error {
	token := s.link.token
	if w == nil {
		if cluster.IsTokenRefusalText(reason) && token != "" {
			return &linkError{tokenRefused(reason), token, false}
		}
		return nil
	}
	w.id = 0
	s.dismount(w)
	s.queue.push(w) // until it is decided
	n, isFresh := s.hub.refused(w, token)
	denied := strings.HasSuffix(reason, status.Convert(rpctypes.ErrGRPCPermissionDenied).Message())
	switch {
	case cluster.IsTokenRefusalText(reason):
		if token == "" && n > 2 { // there is no token to be had
			s.finish(w, Update{Err: tokenRefused(reason)})
			return nil
		}
		return &linkError{tokenRefused(reason), token, false}
	case denied && isFresh && n > 1:
		s.finish(w, Update{Err: rpctypes.ErrGRPCPermissionDenied})
		return nil
	case denied && !isFresh:
		s.hub.cluster.TokenRefused(s.link.member, token, rpctypes.ErrGRPCPermissionDenied)
	}
	s.queue.remove(w)
	w.place = delayed
	s.later = append(s.later, postponed{w, time.Now().Add(delay(n)), denied})
	return nil
}

// tokenRefused makes of a cancel reason the status that it is the text of.
func tokenRefused(reason string) error {
	for _, err := range []error{rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCAuthOldRevision} {
		if strings.HasSuffix(reason, status.Convert(err).Message()) {
			return err
		}
	}
	return fmt.Errorf("%w", rpctypes.ErrGRPCInvalidAuthToken)
}
