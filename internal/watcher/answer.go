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
	got := s.table.answer(r)
	if got.answered {
		s.pulse.answered(now, len(s.table.requests))
	}
	var err error
	switch {
	case got.err != nil:
		err = &linkError{got.err, l.token, true}
	case got.refused != nil:
		err = s.refused(got.refused, got.reason, now)
	}
	calls := s.table.takeCalls()
	h.mu.Unlock()
	callAll(calls)
	return err
}

// refused handles w, which the server did not create, or ended, for reason. w is in no list. The caller
// holds Hub.mu.
func (s *stream) refused(w *Watch, reason string, now time.Time) error {
	token, n := s.link.token, w.refused(now)
	isToken, isFresh := cluster.IsTokenRefusalText(reason), s.hub.isFresh(token, now)
	denied := strings.HasSuffix(reason, status.Convert(rpctypes.ErrGRPCPermissionDenied).Message())
	switch {
	case isToken && token == "" && n > 2: // there is no token to use
		s.table.end(w, Update{Err: tokenRefused(reason)})
		return nil
	case isToken:
		s.table.enqueue(w)
		return &linkError{tokenRefused(reason), token, false}
	case denied && isFresh && n > 1:
		s.table.end(w, Update{Err: rpctypes.ErrGRPCPermissionDenied})
		return nil
	case denied && !isFresh:
		s.hub.cluster.TokenRefused(s.link.member, token, rpctypes.ErrGRPCPermissionDenied)
	}
	s.table.postpone(w, now.Add(w.refusals.backoff.Next()), denied)
	return nil
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
