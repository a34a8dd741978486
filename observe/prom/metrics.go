package prom

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the counters, which events update, and the descriptions of what is computed at a
// scrape.
type metrics struct {
	valid, validity, line, oldest *prometheus.Desc
	idle                          *prometheus.Desc
	unowned, resting, unplanned   *prometheus.Desc
	load, unmeasured              *prometheus.Desc

	granted, jeopardy prometheus.Counter
	reclaimed         prometheus.Counter
	over              *prometheus.CounterVec // cause
	renewal           *prometheus.HistogramVec
	hedged, switches  *prometheus.CounterVec // member
	fenced            *prometheus.CounterVec // guard

	ahead, wait, hold *prometheus.HistogramVec
	held              *prometheus.GaugeVec
	gaveUp, lost      *prometheus.CounterVec
	pending, proclaim *prometheus.CounterVec

	late          *prometheus.HistogramVec // of jobs, as what follows
	runs, skipped *prometheus.CounterVec
	shards        *prometheus.GaugeVec
	shardsOver    *prometheus.CounterVec // cause
	handover      *prometheus.HistogramVec
}

// The buckets of the histograms.
var (
	trips = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	spans = []float64{.001, .005, .025, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}
	heads = []float64{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
)

// builder makes metrics that are described alike.
type builder struct{ opts Options }

func (b builder) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: b.opts.ConstLabels}, labels)
}

func (b builder) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, ConstLabels: b.opts.ConstLabels, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
	}, labels)
}

func (b builder) desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, b.opts.ConstLabels)
}

// of returns the labels of metrics of locks and elections.
func (b builder) of(more ...string) []string {
	if b.opts.Name != nil {
		more = slices.Insert(more, 0, "name")
	}
	return slices.Insert(more, 0, "kind", "mode")
}

// ofShards returns the labels of metrics of shards.
func (b builder) ofShards(more ...string) []string { return b.of(more...)[2:] }

func newMetrics(opts Options) metrics {
	b := builder{opts}
	return metrics{
		valid:    b.desc("pawl_sessions", "Sessions that are valid."),
		validity: b.desc("pawl_session_validity_seconds", "How long the session is valid from now on, unless it is renewed.", "lease"),
		line:     b.desc("pawl_waiting", "Acquisitions and campaigns of this process that wait in a queue.", b.of()...),
		oldest:   b.desc("pawl_oldest_wait_seconds", "How long the one that has waited longest in this process has.", b.of()...),

		idle: b.desc("pawl_progress_age_seconds", "How long the hold with a Stall that has made no progress for longest has made none.", b.of()...),

		unowned:   b.desc("pawl_shards_unowned", "Shards that nobody works on, as this process has counted last.", b.ofShards()...),
		resting:   b.desc("pawl_shards_resting", "Shards that nobody works on, on purpose, because they failed on several workers, as this process has counted last.", b.ofShards()...),
		unplanned: b.desc("pawl_shards_unplanned_seconds", "For how long a worker that came has waited for a plan, as this process has counted last.", b.ofShards()...),

		load:       b.desc("pawl_shards_load", "The load of the shards that this process works on, as shard.Options.Load measures it; 0 without it.", b.ofShards()...),
		unmeasured: b.desc("pawl_shards_unmeasured", "Shards that this process works on, and for which shard.Options.Load returned no load.", b.ofShards()...),

		granted:   b.counter("pawl_sessions_granted_total", "Sessions that began.").WithLabelValues(),
		jeopardy:  b.counter("pawl_sessions_in_jeopardy_total", "How often less than half of a session's validity was left.").WithLabelValues(),
		reclaimed: b.counter("pawl_leases_reclaimed_total", "Leases of dead processes that this one had revoked.").WithLabelValues(),
		over:      b.counter("pawl_sessions_over_total", "Sessions that have ended, by cause; closed: by this process.", "cause"),
		renewal:   b.histogram("pawl_renewal_seconds", "Time of a renewal and of the read that confirms it.", trips, "member"),
		hedged:    b.counter("pawl_renewals_hedged_total", "Renewals that this member had not answered when they were also sent to another.", "member"),
		switches:  b.counter("pawl_member_switches_total", "How often a member failed, so that others are used first.", "member"),
		fenced:    b.counter("pawl_fenced_total", "Writes that a guard refused: of etcd's transactions, or of another storage.", "guard"),

		ahead:    b.histogram("pawl_queue_ahead", "How many were ahead when one came into the queue.", heads, b.of()...),
		wait:     b.histogram("pawl_wait_seconds", "Time from the call until it was held.", spans, b.of("how")...),
		hold:     b.histogram("pawl_hold_seconds", "Time for which it was held.", spans, b.of()...),
		held:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pawl_held", Help: "Locks held and elections led by this process.", ConstLabels: opts.ConstLabels}, b.of()),
		gaveUp:   b.counter("pawl_gave_up_total", "Acquisitions and campaigns that failed, by cause.", b.of("cause")...),
		lost:     b.counter("pawl_lost_total", "Locks and terms that were lost, by cause.", b.of("cause")...),
		pending:  b.counter("pawl_releases_pending_total", "Releases and resignations that were not confirmed when the call returned.", b.of()...),
		proclaim: b.counter("pawl_proclaims_total", "Calls of Term.Proclaim: ok or failed.", b.of("result")[2:]...),

		late:       b.histogram("pawl_job_late_seconds", "Time from the scheduled time of a job until it was called.", spans, b.of()[2:]...),
		runs:       b.counter("pawl_job_runs_total", "Runs of Mutex.Every's function: ok or failed.", b.of("result")[2:]...),
		skipped:    b.counter("pawl_job_skipped_total", "Scheduled times that nobody has run, and nobody will.", b.of()[2:]...),
		shards:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pawl_shards", Help: "Shards that this process works on.", ConstLabels: opts.ConstLabels}, b.ofShards()),
		shardsOver: b.counter("pawl_shards_over_total", "Shards that this process has given up or lost, by cause.", b.ofShards("cause")...),
		handover:   b.histogram("pawl_shard_handover_seconds", "Time from ErrMoved until work had returned.", spans, b.ofShards()...),
	}
}

// all returns the counters.
func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.granted, m.jeopardy, m.reclaimed, m.over, m.renewal, m.hedged, m.switches, m.fenced,
		m.ahead, m.wait, m.hold, m.held, m.gaveUp, m.lost, m.pending, m.proclaim, m.late, m.runs, m.skipped,
		m.shards, m.shardsOver, m.handover,
	}
}
