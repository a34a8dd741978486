package doctor

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
)

// health checks what --health serves.
func (d *doctor) health(ctx context.Context, p *daemon) {
	get := func(path string) (int, string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
		if err != nil {
			return 0, "", err
		}
		resp, body, err := p.do(r)
		if err != nil {
			return 0, "", err
		}
		return resp.StatusCode, strings.TrimSpace(string(body)), nil
	}
	began := time.Now()
	code, _, err := get("/livez")
	if err != nil || code != http.StatusOK {
		do := "start pawld, or name the address that its --health names"
		if _, limited := limit(err); limited {
			do = "see its log: if it says that a connection is refused, end connections to its --health"
		}
		d.wrong("live", p.base, fmt.Sprintf("/livez does not answer: %v", cmp.Or(err, fmt.Errorf("status %d", code))), do)
		return
	}
	d.ok("live", p.base, "answers in %s", cli.Span(time.Since(began)))
	d.version(p)
	code, said, err := get("/readyz")
	switch {
	case err != nil || code != http.StatusOK:
		d.wrong("ready", p.base, fmt.Sprintf("cannot acquire locks: %s", cli.Plain(cmp.Or(said, fmt.Sprint(err)))),
			"see its log; pawl doctor, with the --endpoints that pawld has, checks etcd")
	default:
		d.ok("ready", p.base, "can acquire locks")
	}
	if code, said, err = get("/metrics"); err != nil || code != http.StatusOK {
		d.wrong("metrics", p.base, fmt.Sprintf("/metrics does not answer: %v", cmp.Or(err, fmt.Errorf("status %d", code))), "name the address that pawld's --health names")
		return
	}
	d.metrics(p.base, said)
}

// faults are the counters that stay 0 while all is well.
var faults = []struct{ name, says, do string }{
	{"pawld_etcd_sessions_lost_total", "times pawld lost its own session at etcd, and all locks with it", "check etcd and the network to it around the times in pawld's log"},
	{"pawld_stalls_total", "times pawld did not run for longer than a sixth of a client's TTL", "give it more CPU, and keep its machine from suspending or swapping"},
	{"pawld_promises_cut_total", "answers were valid for less time than the clients' TTLs allow", "pawld's own session is renewed late: check its CPU and the network to etcd"},
}

// metrics reads what failed in the past, since pawld started.
func (d *doctor) metrics(at, text string) {
	values := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = v
		}
	}
	quiet := true
	for _, t := range faults {
		switch n, ok := values[t.name]; {
		case !ok:
			d.wrong("metrics", at, "has no "+t.name, "name the address that pawld's --health names, of a pawld as new as this pawl")
			quiet = false
		case n > 0:
			d.odd("metrics", at, fmt.Sprintf("%.0f %s", n, t.says), t.do)
			quiet = false
		}
	}
	if quiet {
		d.ok("metrics", at, "no session lost, no stall, no promise cut since it started")
	}
}
