package elect_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/observe"
)

// recorder keeps all events except those of sessions and members.
type recorder struct {
	mu   sync.Mutex
	all  []observe.Event
	more func(ev observe.Event)
}

func (e *recorder) Observe(_ context.Context, ev observe.Event) {
	switch ev.(type) {
	case observe.SessionGranted, observe.SessionRenewed, observe.SessionClosed, observe.MemberSwitched:
		return
	}
	e.mu.Lock()
	e.all = append(e.all, ev)
	e.mu.Unlock()
	if e.more != nil {
		e.more(ev)
	}
}

func (e *recorder) events() (all []observe.Event) {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	all, e.all = e.all, nil
	return all
}

func TestATermIsReportedFromItsCampaignToItsEnd(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		term := w.campaign(w.sessionOn(w.clientWith(pawl.Config{Observer: e})), "e", "v")
		time.Sleep(time.Second)
		require.NoError(t, term.Proclaim(w.ctx, []byte("v2")))
		require.NoError(t, term.Resign(w.ctx))
		all := e.events()
		require.Len(t, all, 4)
		c := all[0].(observe.CampaignEnqueued).Acquisition
		assert.Equal(t, observe.Acquisition{ID: c.ID, Name: "e", Key: term.Key(), Token: term.Token(), Lease: c.Lease, Mode: observe.Exclusive, Slot: -1}, c)
		assert.Equal(t, []observe.Event{
			observe.CampaignEnqueued{Acquisition: c},
			observe.TermElected{Acquisition: c, How: observe.Free},
			observe.TermProclaimed{Acquisition: c},
			observe.TermEnded{Acquisition: c, Led: time.Second},
		}, all)
		assert.Error(t, term.Proclaim(w.ctx, nil))
		all = e.events()
		require.Len(t, all, 1)
		assert.ErrorIs(t, all[0].(observe.TermProclaimed).Err, elect.ErrResigned)
	})
}

func TestATermThatIsLostIsReportedWithItsCause(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		term := w.campaign(w.sessionOn(w.clientWith(pawl.Config{Observer: e})), "e", "v")
		time.Sleep(time.Second)
		w.Delete(term.Key())
		all := e.events()
		ended := all[len(all)-1].(observe.TermEnded)
		assert.ErrorIs(t, ended.Err, elect.ErrLost)
		assert.ErrorIs(t, ended.Err, elect.ErrKeyDeleted)
		assert.NoError(t, ended.Pending)
		assert.Equal(t, time.Second, ended.Led)
	})
}

func TestACandidateThatGivesUpIsReported(t *testing.T) {
	inBubble(t, func(w *fixture) {
		first := w.campaign(w.session(), "e", "v")
		e := &recorder{}
		s := w.sessionOn(w.clientWith(pawl.Config{Observer: e}))
		ctx, cancel := context.WithTimeout(w.ctx, 2*time.Second)
		defer cancel()
		_, err := elect.New(s, "e", elect.Options{}).Campaign(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		all := e.events()
		require.Len(t, all, 2)
		assert.Equal(t, 1, all[0].(observe.CampaignEnqueued).Ahead)
		gaveUp := all[1].(observe.CampaignGaveUp)
		assert.Equal(t, 2*time.Second, gaveUp.Wait)
		assert.ErrorIs(t, gaveUp.Err, context.DeadlineExceeded)
		require.NoError(t, first.Resign(w.ctx))
	})
}

// Calls of Proclaim are made one at a time. A call within the event of another must not wait for
// it.
func TestAnObserverMayProclaimWhenAProclamationIsReported(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		term := w.campaign(w.sessionOn(w.clientWith(pawl.Config{Observer: e})), "e", "v")
		again := true
		e.more = func(ev observe.Event) {
			if _, ok := ev.(observe.TermProclaimed); ok && again {
				again = false
				assert.NoError(t, term.Proclaim(w.ctx, []byte("from within")))
			}
		}
		require.NoError(t, term.Proclaim(w.ctx, []byte("first")))
		assert.Equal(t, "from within", string(w.Get(term.Key()).Value))
		e.more = nil
		require.NoError(t, term.Resign(w.ctx))
	})
}

// Run is reported as the events of its campaigns and terms.
func TestRunsTermsAreReported(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		c := w.clientWith(pawl.Config{Observer: e})
		terms := 0
		require.NoError(t, elect.Run(w.ctx, c, "e", elect.RunOptions{}, func(ctx context.Context, term *elect.Term) error {
			if terms++; terms == 1 {
				w.Delete(term.Key())
				<-ctx.Done()
			}
			return nil
		}))
		all := e.events()
		require.Len(t, all, 6)
		assert.ErrorIs(t, all[2].(observe.TermEnded).Err, elect.ErrKeyDeleted)
		assert.NoError(t, all[5].(observe.TermEnded).Err, "resigned")
	})
}
