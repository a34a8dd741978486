package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// healthHandler is /livez, which says that this process serves; /readyz, which says that a
// lock can be had; and /metrics. They are apart, because a supervisor that restarts a daemon that is
// not ready restarts it during each outage of etcd.
func (d *daemon) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := d.service.Ready(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		c := d.service.Counts()
		for _, m := range []struct {
			name, kind, help string
			value            int
		}{
			{"pawld_sessions", "gauge", "Clients' sessions that have not expired.", c.Sessions},
			{"pawld_locks_held", "gauge", "Locks and terms held for clients.", c.Held},
			{"pawld_locks_waiting", "gauge", "Places in queues kept for clients.", c.Waiting},
			{"pawld_stalls_total", "counter", "Times that pawld itself did not run for long enough to be a risk to its clients' sessions.", c.Stalls},
			{"pawld_etcd_sessions_lost_total", "counter", "Sessions of pawld's own at etcd that were lost, each with all locks.", c.Lost},
			{"pawld_promises_cut_total", "counter", "Answers whose promise was shorter than the client's TTL, because pawld's own session had little left.", c.Cut},
			{"pawld_orphans_total", "counter", "Locks given back because no answer had listed them.", c.Orphans},
		} {
			fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
		}
	})
	return mux
}
