package watcher

import (
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// answer processes what the link's reader received. An error ends the link.
func (s *stream) answer(r *pb.WatchResponse, now time.Time) error {
	c, l, h := s.hub.cluster, s.link, s.hub
	if err := c.Check(l.member, r.Header, 0, false); err != nil {
		return &linkError{err, l.token, true}
	}
	s.pulse.alive(now)
	if l.worked.IsZero() {
		l.worked = now
		c.TokenAccepted(l.member, l.token)
		c.Worked(l.member)
	}
	h.mu.Lock()
	calls, got := s.table.answer(r, s.calls[:0])
	if got.answered {
		s.pulse.answered(now, len(s.table.requests))
	}
	err := got.err
	switch {
	case err != nil:
		err = &linkError{err, l.token, true}
	case got.refused:
		calls, err = s.refused(got.watch, got.reason, now, calls)
	}
	s.calls = s.left(calls)
	h.mu.Unlock()
	s.call()
	return err
}

// refused handles w, which the server did not create, or ended, for reason; w is in no list.
// With w nil, only what reason says about the token counts. Caller holds Hub.mu.
func (s *stream) refused(w *Watch, reason string, now time.Time, out []delivery) ([]delivery, error) {
	token, isToken := s.link.token, cluster.IsTokenRefusalText(reason)
	if w == nil {
		if isToken && token != "" {
			return out, &linkError{tokenRefused(reason), token, false}
		}
		return out, nil
	}
	n, isFresh := w.refused(now), s.hub.isFresh(token, now)
	denied := strings.HasSuffix(reason, status.Convert(rpctypes.ErrGRPCPermissionDenied).Message())
	switch {
	case isToken && token == "" && n > 2: // there is no token to use
		return s.table.end(w, Update{Err: tokenRefused(reason)}, out), nil
	case isToken:
		s.table.enqueue(w)
		return out, &linkError{tokenRefused(reason), token, false}
	case denied && isFresh && n > 1:
		return s.table.end(w, Update{Err: rpctypes.ErrGRPCPermissionDenied}, out), nil
	case denied && !isFresh:
		s.hub.cluster.TokenRefused(s.link.member, token, rpctypes.ErrGRPCPermissionDenied)
	}
	s.table.postpone(w, now.Add(w.refusals.backoff.Next()), denied)
	return out, nil
}

// tokenRefused converts a cancel reason to the status whose text it is.
func tokenRefused(reason string) error {
	for _, err := range []error{rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCAuthOldRevision} {
		if strings.HasSuffix(reason, status.Convert(err).Message()) {
			return err
		}
	}
	return fmt.Errorf("%w", rpctypes.ErrGRPCInvalidAuthToken)
}
