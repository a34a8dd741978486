//go:build linux

package main

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sys/unix"
)

// A meter adds up what happens between its starts and stops, in this process, and according to the
// server's metrics. The meter's cost is left out.
type meter struct {
	addr   string
	daemon *daemon // its CPU is counted too; nil if there is none
	before reading
	sum    reading
}

// reading is the counters at one moment.
type reading struct {
	at         time.Duration // since epoch
	cpu        time.Duration // of this process, user and system
	daemonCPU  time.Duration // of pawld, where the work is done through it
	mallocs    uint64
	allocated  uint64
	serverCPU  float64
	bytesIn    float64 // as the server counts: from the clients
	bytesOut   float64
	calls      map[string]float64 // calls, or the messages of a stream, by method
	serverHeap float64
}

var epoch = time.Now()

func (m *meter) start() error {
	r, err := scrape(m.addr)
	if err != nil {
		return err
	}
	runtime.GC()
	if m.daemon != nil {
		if r.daemonCPU, err = m.daemon.cpu(); err != nil {
			return err
		}
	}
	r.local()
	m.before = r
	return nil
}

func (m *meter) stop() error {
	var now reading
	now.local()
	if m.daemon != nil {
		var err error
		if now.daemonCPU, err = m.daemon.cpu(); err != nil {
			return err
		}
	}
	server, err := scrape(m.addr)
	if err != nil {
		return err
	}
	b := m.before
	m.sum.at += now.at - b.at
	m.sum.cpu += now.cpu - b.cpu
	m.sum.daemonCPU += now.daemonCPU - b.daemonCPU
	m.sum.mallocs += now.mallocs - b.mallocs
	m.sum.allocated += now.allocated - b.allocated
	m.sum.serverCPU += server.serverCPU - b.serverCPU
	m.sum.bytesIn += server.bytesIn - b.bytesIn
	m.sum.bytesOut += server.bytesOut - b.bytesOut
	if m.sum.calls == nil {
		m.sum.calls = map[string]float64{}
	}
	for method, n := range server.calls {
		if d := n - b.calls[method]; d != 0 {
			m.sum.calls[method] += d
		}
	}
	return nil
}

// scale multiplies a sum by share.
func (r *reading) scale(share float64) {
	r.at = time.Duration(share * float64(r.at))
	r.cpu = time.Duration(share * float64(r.cpu))
	r.daemonCPU = time.Duration(share * float64(r.daemonCPU))
	r.mallocs = uint64(share * float64(r.mallocs))
	r.allocated = uint64(share * float64(r.allocated))
	r.serverCPU *= share
	r.bytesIn *= share
	r.bytesOut *= share
	for method := range r.calls {
		r.calls[method] *= share
	}
}

func (r *reading) local() {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r.mallocs, r.allocated = mem.Mallocs, mem.TotalAlloc
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // cannot fail with these arguments
	r.cpu = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	r.at = time.Since(epoch)
}

// scraping keeps no connection, which would cost goroutines.
var scraping = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}

// scrape reads the server's metrics.
func scrape(addr string) (r reading, err error) {
	resp, err := scraping.Get("http://" + addr + "/metrics")
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return r, fmt.Errorf("metrics of %s: %w", addr, err)
	}
	r.calls = map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			method, stream := labels["grpc_method"], labels["grpc_type"] != "unary"
			switch {
			case name == "process_cpu_seconds_total":
				r.serverCPU = v
			case name == "go_memstats_heap_alloc_bytes":
				r.serverHeap = v
			case name == "etcd_network_client_grpc_received_bytes_total":
				r.bytesIn = v
			case name == "etcd_network_client_grpc_sent_bytes_total":
				r.bytesOut = v
			case name == "grpc_server_started_total" && !stream:
				r.calls[method] += v
			case name == "grpc_server_msg_received_total" && stream:
				r.calls[method+in] += v
			case name == "grpc_server_msg_sent_total" && stream:
				r.calls[method+out] += v
			}
		}
	}
	return r, nil
}

// The messages of a stream, as the server counts them.
const (
	in  = " in"
	out = " out"
)

// figures are the sum, for n operations.
func (m *meter) figures(n int) figures {
	f := figures{
		Ops: n, Wall: m.sum.at.Seconds(), CPU: m.sum.cpu.Seconds(), DaemonCPU: m.sum.daemonCPU.Seconds(), ServerCPU: m.sum.serverCPU,
		Allocs: float64(m.sum.mallocs), AllocBytes: float64(m.sum.allocated),
		BytesIn: m.sum.bytesIn, BytesOut: m.sum.bytesOut, Calls: m.sum.calls,
	}
	return f
}

// footprint is how much memory this process and the server use, without garbage.
type footprint struct {
	heap       float64
	stacks     float64
	goroutines int
	serverHeap float64
}

func measureFootprint(addr string) (f footprint, err error) {
	resp, err := scraping.Get("http://" + addr + "/debug/pprof/heap?gc=1") // has the server collect its garbage
	if err != nil {
		return f, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return f, fmt.Errorf("profile of %s: %s", addr, strings.ToLower(resp.Status))
	}
	r, err := scrape(addr)
	if err != nil {
		return f, err
	}
	runtime.GC()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return footprint{float64(mem.HeapAlloc), float64(mem.StackInuse), runtime.NumGoroutine(), r.serverHeap}, nil
}
