package browser

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/lease"
)

// A sceneOf is what the pictures show: names with those who want them, as keys put
// by hand, for their owners and hosts are made up.
type sceneOf struct {
	*site
	length time.Duration
	parts  []*part
}

// A part is what happens at one name.
type part struct {
	scene   *sceneOf
	name    string
	value   string   // an election's
	workers []string // who take turns
	depth   int      // how many are in the queue, the holder included
	holds   []hold   // one after the other; the last one does not end
}

// A hold has how long it lasts, as a part of the scene, and its end.
type hold struct {
	part float64
	end  string // released, lost, broken
}

func newScene(s *site, length time.Duration) *sceneOf {
	sc := &sceneOf{site: s, length: length}
	add := func(name, value string, depth int, workers []string, holds ...hold) {
		sc.parts = append(sc.parts, &part{sc, name, value, workers, depth, holds})
	}
	web := []string{"web-1", "web-2", "web-3"}
	add("backup/nightly", "", 2, []string{"backup-a", "backup-b"}, hold{.34, "released"}, hold{.21, "lost"})
	add("billing/invoices", "", 1, web, hold{.1, "released"}, hold{.08, "released"}, hold{.12, "released"}, hold{.2, "released"}, hold{.09, "released"}, hold{.11, "released"}, hold{.08, "released"})
	add("cache-warmer", "leading from web-2", 3, web, hold{.62, "lost"})
	add("deploy", "", 3, []string{"ci-runner-3", "ci-runner-7", "ci-runner-9"}, hold{.47, "broken"})
	add("mail/outbox", "", 2, []string{"mailer-1", "mailer-2"}, hold{.06, "released"}, hold{.07, "released"}, hold{.06, "released"}, hold{.09, "released"}, hold{.05, "released"}, hold{.08, "released"}, hold{.07, "released"}, hold{.06, "released"}, hold{.1, "released"}, hold{.06, "released"})
	add("migrations", "", 1, []string{"release-42"}, hold{.3, "released"}, hold{2, ""})
	add("reports/daily", "", 5, []string{"report-1", "report-2", "report-3", "report-4", "report-5", "report-6"}, hold{.18, "released"}, hold{.24, "lost"}, hold{.15, "released"})
	add("reports/weekly", "", 1, []string{"report-2"}, hold{.85, "released"})
	add("scheduler", "10.0.3.17:9000", 3, []string{"node-a", "node-b", "node-c"}, hold{.4, "released"})
	add("search/reindex", "", 1, []string{"indexer-1"}, hold{.25, "lost"}, hold{.2, "released"}, hold{.15, "lost"})
	add("sessions/cleanup", "", 2, web, hold{.5, "released"})
	add("thumbnails", "", 1, []string{"worker-8"})
	now := time.Now()
	for name, every := range map[string]time.Duration{"reports/daily": 24 * time.Hour, "certificates": 12 * time.Hour} {
		at := now.Truncate(every)
		s.etcd.Put(keys.OnceKey("app/", name), string(keys.Run{At: at, Next: at.Add(every)}.Value()), 0)
	}
	return sc
}

// A position is a key in the queue.
type position struct {
	key   string
	lease int64
}

func (p *part) play(ctx context.Context) {
	var queue []position
	next := 0
	fill := func() {
		for len(queue) < p.depth {
			queue = append(queue, p.join(p.workers[next%len(p.workers)], next))
			next++
		}
	}
	for _, t := range p.holds {
		fill()
		select {
		case <-time.After(time.Duration(t.part * float64(p.scene.length))):
		case <-ctx.Done():
			return
		}
		p.end(queue[0], t.end)
		queue = queue[1:]
	}
	if len(p.holds) == 0 || p.depth > 1 || next%2 == 1 {
		fill()
	}
	<-ctx.Done()
}

var (
	seats sync.Mutex
	seat  int64
)

// join puts a key as a lock or a campaign would.
func (p *part) join(worker string, n int) position {
	s := p.scene
	session, err := s.client.NewSession(context.Background(), lease.Options{Owner: worker, TTL: time.Minute})
	require.NoError(s, err)
	l, err := keys.NewQueue("app/", p.name, false)
	require.NoError(s, err)
	seats.Lock()
	seat++
	pid := 1200 + 37*seat
	seats.Unlock()
	who := fmt.Sprintf(`"owner":%q,"host":"%s.example.net","pid":%d,"since":%q}`, worker, worker, pid, time.Now().UTC().Format(time.RFC3339Nano))
	at := position{fmt.Sprintf("%s%x-1", l.Prefix, session.ID()), session.ID()}
	if p.value != "" {
		s.etcd.Put(at.key, p.value, session.ID())
		return at
	}
	s.etcd.Put(at.key, `{"pawl":"lock",`+who, session.ID())
	return at
}

func (p *part) end(at position, how string) {
	s := p.scene
	switch how {
	case "released":
		s.etcd.Delete(at.key)
	case "lost":
		s.etcd.Revoke(at.lease)
	case "broken":
		v, err := inspect.Read(context.Background(), s.client, inspect.Scope{Name: p.name})
		require.NoError(s, err)
		require.NoError(s, inspect.Evict(context.Background(), s.client, v.Queues[0].Queue[0], s.opts.By))
	}
}
