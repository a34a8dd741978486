// Package alerts tests in Prometheus' engine what observe/prom ships for operators: the alerts and
// the dashboard's queries, on the series of a Collector that was sent events, the first event of
// its kind among them. It is a separate module, so that users of the metrics do not depend on
// Prometheus.
package alerts
