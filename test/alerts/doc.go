// Package alerts tests what observe/prom ships for operators in Prometheus' own engine:
// the alerts and the dashboard's queries, on the series of a Collector that was sent
// events, the first event of its kind among them. It is a module of its own, so that
// nobody who uses the metrics has Prometheus among his requirements.
package alerts
