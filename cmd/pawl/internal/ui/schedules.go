package ui

import (
	"context"
	"slices"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
)

// A scheduleView is what is recorded of a name's runs, for the browser. Times are in milliseconds.
type scheduleView struct {
	ID    string `json:"id"` // of the name's queue in pawl's layout
	Name  string `json:"name"`
	At    int64  `json:"at"`             // for which the last run was due
	Next  int64  `json:"next,omitempty"` // as the schedule says; 0 if there is none, or it is not known
	Began bool   `json:"began,omitempty"`
}

// readSchedules reads the records of runs, and publishes them if they are different. They are read with
// the probe, and not watched, because they change seldom.
func (p *Page) readSchedules(ctx context.Context) error {
	found, err := inspect.Schedules(ctx, p.client, p.opts.Prefix)
	if cluster.IsPermissionDenied(err) {
		return nil // they are not shown
	}
	if err != nil {
		return err
	}
	views := make([]scheduleView, 0, len(found))
	for _, s := range found {
		if s.At.IsZero() { // it holds no time
			continue
		}
		view := scheduleView{Name: text(s.Name), At: millis(s.At), Next: millis(s.Next), Began: s.Began}
		if q, err := keys.NewQueue(p.opts.Namespace, s.Name, false); err == nil {
			view.ID = idOf(q.Prefix)
			views = append(views, view)
		}
	}
	p.hub.plan(views)
	return nil
}

// plan stores the schedules.
func (h *hub) plan(views []scheduleView) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.schedules, views) {
		h.schedules = views
		h.publish("schedules", views)
	}
}
