// Package prom shows what pawl's locks, elections and sessions do as Prometheus
// metrics.
//
//	metrics := prom.New(prom.Options{})
//	prometheus.MustRegister(metrics)
//	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: endpoints, Observer: metrics})
//
// One Collector serves any number of clients. dashboard.json, beside this file, is a Grafana
// dashboard of its metrics; docs/how-to/observability.md in pawl's repository explains them, and
// which of them to alert on.
//
// # Metrics
//
// kind is "lock" or "election". mode is how a lock is wanted: "exclusive", "shared" or, for a slot of a
// semaphore, "semaphore". Several names at once count as one lock, which is shared if all of them are.
// name is there only with Options.Name, because there can be as many names as jobs; of several names it
// is the first. cause is one of a few words: expired, revoked, closed, cluster_changed, key_deleted,
// key_overwritten, max_hold, stalled, overrun, busy, token_floor, timeout, canceled, other.
//
//	pawl_sessions                                     gauge      sessions that are valid
//	pawl_session_validity_seconds{lease}              gauge      validity left, at the scrape
//	pawl_sessions_granted_total                       counter
//	pawl_sessions_over_total{cause}                   counter    cause closed: by this process
//	pawl_sessions_in_jeopardy_total                   counter    less than half of the validity left
//	pawl_leases_reclaimed_total                       counter    of dead processes, revoked by this one
//	pawl_renewal_seconds{member}                      histogram  a renewal and its confirming read
//	pawl_renewals_hedged_total{member}                counter    that member had not answered
//	pawl_waiting{kind,mode,name}                      gauge      in a queue, in this process
//	pawl_oldest_wait_seconds{kind,mode,name}          gauge      how long the first of them has waited
//	pawl_queue_ahead{kind,mode,name}                  histogram  how many were ahead when one came into the queue
//	pawl_wait_seconds{kind,mode,name,how}             histogram  until it was held; how: free, granted, confirmed, resumed
//	pawl_gave_up_total{kind,mode,name,cause}          counter    acquisitions that failed
//	pawl_held{kind,mode,name}                         gauge      held, or led, by this process
//	pawl_progress_age_seconds{kind,mode,name}         gauge      since the last progress, of the worst hold with a Stall
//	pawl_hold_seconds{kind,mode,name}                 histogram  until it was released or lost
//	pawl_lost_total{kind,mode,name,cause}             counter
//	pawl_releases_pending_total{kind,mode,name}       counter    unconfirmed when the call returned
//	pawl_proclaims_total{name,result}                 counter    result: ok, failed
//	pawl_job_late_seconds{name}                       histogram  from the scheduled time to the call of Mutex.Every's function
//	pawl_job_runs_total{name,result}                  counter    result: ok, failed
//	pawl_job_skipped_total{name}                      counter    scheduled times that nobody has run, and nobody will
//	pawl_shards{name}                                 gauge      shards that this process works on
//	pawl_shards_over_total{name,cause}                counter    cause: moved, left, failed, lost
//	pawl_shard_handover_seconds{name}                 histogram  from ErrMoved until work had returned
//	pawl_shards_unowned{name}                         gauge      that nobody works on, as counted last
//	pawl_shards_resting{name}                         gauge      that nobody works on, on purpose, as counted last
//	pawl_shards_unplanned_seconds{name}               gauge      a worker that came has waited for a plan, as counted last
//	pawl_shards_load{name}                            gauge      of this process's shards, with shard.Options.Load
//	pawl_shards_unmeasured{name}                      gauge      of this process's, for which that returned no load
//	pawl_member_switches_total{member}                counter    a member failed, others are tried first
//	pawl_fenced_total{guard}                          counter    writes refused; guard: etcd, storage
package prom
