package ui

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/pawl-locks/pawl/internal/inspect"
)

const (
	leasesWithin = 3 * time.Second
	leasesOfOne  = 10 // of the first positions
)

// A left is the remaining time of a lease, in seconds.
type left struct {
	TTL  float64 `json:"ttl"` // as granted
	Left float64 `json:"left"`
	Gone bool    `json:"gone,omitempty"`
}

// leases returns how much time the leases of a queue's first positions have left.
func (p *Page) leases(w http.ResponseWriter, r *http.Request) {
	l, ok := p.hub.queue(r.URL.Query().Get("queue"))
	if !ok {
		refuse(w, http.StatusNotFound, "nobody holds it or waits for it")
		return
	}
	var ids []int64
	for _, place := range l.Queue[:min(len(l.Queue), leasesOfOne)] {
		ids = append(ids, place.Lease)
	}
	ctx, cancel := context.WithTimeout(r.Context(), leasesWithin)
	defer cancel()
	found, err := inspect.Leases(ctx, p.client, ids...)
	if err != nil && len(found) == 0 {
		refuse(w, http.StatusBadGateway, err.Error())
		return
	}
	out := map[string]left{}
	for id, l := range found {
		out[strconv.FormatInt(id, 16)] = left{l.Granted.Seconds(), l.Left.Seconds(), l.Gone}
	}
	answer(w, http.StatusOK, map[string]any{"leases": out})
}
