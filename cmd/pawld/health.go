package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
)

// healthHandler serves /livez, which reports that this process serves; /readyz, which reports that
// a lock can be acquired; and /metrics. The first two are separate, because a supervisor that
// restarted a daemon that is not ready would restart it during each outage of etcd.
func (d *daemon) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := d.ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		var c service.Counts
		if d.serving() {
			c = d.service.Counts()
		}
		ready := 0
		if d.ready(r.Context()) == nil {
			ready = 1
		}
		for _, m := range []struct {
			name, kind, help string
			value            int
		}{
			{"pawld_ready", "gauge", "1 where a lock can be had, 0 where etcd does not answer or takes no writes.", ready},
			{"pawld_sessions", "gauge", "Clients' sessions that have not expired.", c.Sessions},
			{"pawld_locks_held", "gauge", "Locks and terms held for clients.", c.Held},
			{"pawld_locks_waiting", "gauge", "Places in queues kept for clients.", c.Waiting},
			{"pawld_stalls_total", "counter", "Times that pawld itself did not run for long enough to be a risk to its clients' sessions.", c.Stalls},
			{"pawld_etcd_sessions_lost_total", "counter", "Sessions of pawld's own at etcd that were lost, each with all locks.", c.Lost},
			{"pawld_promises_cut_total", "counter", "Answers whose promise was shorter than the client's TTL, because pawld's own session had little left.", c.Cut},
			{"pawld_orphans_total", "counter", "Locks given back because no answer had listed them.", c.Orphans},
			{"pawld_locks_expired_total", "counter", "Locks taken from clients that were silent for their TTL, or whose bound process exited.", c.Expired},
			{"pawld_locks_overheld_total", "counter", "Locks taken from clients that held them for longer than their max_hold_ms.", c.Overheld},
			{"pawld_locks_stalled_total", "counter", "Locks taken from clients that reported no Progress for their stall_ms.", c.Stalled},
			{"pawld_progress_age_seconds", "gauge", "How long the lock with a stall_ms that has made no progress for longest has made none, in whole seconds.", c.Idle},
		} {
			fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
		}
		d.connectionMetrics(w)
		fmt.Fprintln(w, "# HELP pawld_requests_total Calls of clients, by what became of them.\n# TYPE pawld_requests_total counter")
		if !d.serving() {
			return
		}
		d.api.Requests(func(call, code string, n int64) {
			fmt.Fprintf(w, "pawld_requests_total{call=%q,code=%q} %d\n", call, code, n)
		})
	})
	return mux
}

// connectionMetrics writes what there is of each listener's connections.
func (d *daemon) connectionMetrics(w io.Writer) {
	for _, m := range []struct {
		name, kind, help string
		of               func(now int, refused int64) int64
	}{
		{"pawld_connections", "gauge", "Connections of each listener.", func(now int, _ int64) int64 { return int64(now) }},
		{"pawld_connections_refused_total", "counter", "Connections that were closed because a listener had as many as it may have: the new one, or of health the oldest.", func(_ int, refused int64) int64 { return refused }},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
		for _, l := range d.all {
			fmt.Fprintf(w, "%s{listener=%q} %d\n", m.name, l.Addr(), m.of(l.limit.Counts()))
		}
	}
}

// ready returns why no lock can be acquired now.
func (d *daemon) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if !d.serving() {
		return errors.New("pawld takes over what its predecessor left")
	}
	return d.service.Ready(ctx)
}

// serving reports whether the predecessor's locks have been taken over.
func (d *daemon) serving() bool {
	select {
	case <-d.serves:
		return true
	default:
		return false
	}
}
