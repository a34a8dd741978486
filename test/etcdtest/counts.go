package etcdtest

import (
	"fmt"
	"maps"

	"github.com/prometheus/client_golang/prometheus"
)

// Counts are what the server's metrics count of its RPCs, by method ("Txn", "LeaseKeepAlive",
// "Watch" …).
type Counts struct {
	Started  map[string]int // grpc_server_started_total: calls, or streams
	Received map[string]int // grpc_server_msg_received_total
	Sent     map[string]int // grpc_server_msg_sent_total
}

// Counts reads the server's metrics. etcd keeps them for a process as a whole, so they are those of
// all servers that this test process ever ran. Take the difference of two with Since, and use no
// other server meanwhile.
func (s *Server) Counts() (Counts, error) {
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		return Counts{}, fmt.Errorf("etcdtest: counts: %w", err)
	}
	n := Counts{map[string]int{}, map[string]int{}, map[string]int{}}
	into := map[string]map[string]int{
		"grpc_server_started_total":      n.Started,
		"grpc_server_msg_received_total": n.Received,
		"grpc_server_msg_sent_total":     n.Sent,
	}
	for _, f := range families {
		to := into[f.GetName()]
		if to == nil {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if v := int(m.GetCounter().GetValue()); l.GetName() == "grpc_method" && v != 0 {
					to[l.GetValue()] += v
				}
			}
		}
	}
	return n, nil
}

// Since is what was counted after before was taken. Methods without any are left out.
func (n Counts) Since(before Counts) Counts {
	return Counts{
		since(n.Started, before.Started),
		since(n.Received, before.Received),
		since(n.Sent, before.Sent),
	}
}

func since(now, before map[string]int) map[string]int {
	d := maps.Clone(now)
	for k, v := range before {
		if d[k] -= v; d[k] == 0 {
			delete(d, k)
		}
	}
	return d
}
