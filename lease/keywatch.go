package lease

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// watchKey watches the session key from revision from on. A watch proves loss,
// never ownership (rule H2): nothing depends on its telling anything.
func (s *Session) watchKey(from int64) {
	w := s.host.Watches.Watch(s.key, "", from, s.keyChanged)
	s.mu.Lock()
	over := s.over.Load() != nil
	if !over {
		s.keyWatch = w
	}
	s.mu.Unlock()
	if over {
		w.Cancel()
	}
}

// keyChanged is called with every change of the session key.
func (s *Session) keyChanged(u watcher.Update) {
	for _, ev := range u.Events {
		switch {
		case ev.Deleted:
			s.Gone(fmt.Sprintf("session key %q was deleted at revision %d", s.key, ev.ModRevision))
		case ev.ModRevision > s.mod:
			s.displaced(ev.ModRevision)
		}
	}
	if u.Compacted > 0 || u.Err != nil {
		s.mu.Lock()
		s.watchEnd = true
		s.mu.Unlock()
	}
}

// keepWatching makes a watch that is over anew, after a confirmed renewal whose
// read showed the session key at revision rev.
func (s *Session) keepWatching(rev int64) {
	s.mu.Lock()
	again := s.watchEnd
	s.watchEnd = false
	s.mu.Unlock()
	if again {
		s.watchKey(rev + 1)
	}
}

// Examine asks the cluster, linearizably, whether the session key is still as
// this session wrote it, and ends the session if not. The error says why the
// session is over, or why it could not be asked.
func (s *Session) Examine(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return err
	}
	resp, err := s.host.Cluster.Txn(ctx, cluster.Request{Op: "read session key", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: []*pb.RequestOp{txn.Look(s.key)},
	})
	if err != nil {
		return err
	}
	return s.JudgeKey(txn.KV(resp, 0), resp.Header.Revision)
}

// ExamineSoon examines the session in the background, with a read that is sent after this call and
// bounded by wait, and then calls then, once. A burst of calls, as when a lease takes a thousand
// keys along, shares its reads. Where the client is closed nothing is read.
func (s *Session) ExamineSoon(wait time.Duration, then func()) {
	s.mu.Lock()
	s.examined = append(s.examined, then)
	begin := !s.examining
	s.examining = true
	s.mu.Unlock()
	if !begin {
		return
	}
	examine := func(ctx context.Context, read bool) {
		for {
			batch := s.takeExamined()
			if len(batch) == 0 {
				return
			}
			if read {
				s.examineIn(ctx, wait)
			}
			for _, then := range batch {
				then()
			}
		}
	}
	what := fmt.Sprintf("session key %q", s.key)
	if !s.host.Behind.Go(what, func(ctx context.Context) { examine(ctx, true) }) {
		examine(context.Background(), false)
	}
}

// examineIn examines the session, in no more than wait.
func (s *Session) examineIn(ctx context.Context, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_ = s.Examine(ctx)
}

// takeExamined takes who waits for the next examination; none: there will be no next.
func (s *Session) takeExamined() []func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch := s.examined
	s.examined = nil
	s.examining = len(batch) > 0
	return batch
}
