package reap

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/reclaim"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/lease"
)

// An event is a line of pawl reap.
type event struct {
	Event string    `json:"event"` // watching, reclaimed, taken over
	Dir   string    `json:"dir"`
	Lease string    `json:"lease,omitempty"`
	Owner string    `json:"owner,omitempty"`
	After *float64  `json:"after,omitempty"` // seconds
	Time  time.Time `json:"time"`

	DirBase64 string `json:"dirBase64,omitempty"` // if JSON cannot represent it as it is
}

// text formats e for people to read.
func (e event) text() string {
	s := fmt.Sprintf("%s %s %s", e.Time.Format(cli.ClockTime), e.Event, cli.Plain(e.Dir))
	if e.Lease != "" {
		s += " lease=" + e.Lease + " owner=" + strconv.Quote(e.Owner)
	}
	if e.After != nil {
		s += " after=" + cli.Span(time.Duration(*e.After*float64(time.Second)))
	}
	return s
}

// A reporter prints what happens. Its methods are safe for concurrent use, and wait for nobody who reads.
type reporter struct {
	to   io.Writer
	json bool
}

func (r *reporter) say(e event) {
	e.Time = time.Now()
	if r.json {
		e.DirBase64 = cli.Base64(e.Dir)
		_ = cli.JSONLine(r.to, e) // to Notices, which return no error
		return
	}
	fmt.Fprintln(r.to, e.text())
}

func (r *reporter) warn(format string, args ...any) {
	fmt.Fprintf(cli.Stderr, "pawl: "+format+"\n", args...)
}

// reclaimer reclaims in d, and reports that.
func (r *reporter) reclaimer(path string, d *reclaim.Dir, host session.Host) *reclaim.Reclaimer {
	return &reclaim.Reclaimer{
		Dir: d, Host: host,
		Reclaimed: func(l reclaim.Left, after time.Duration, err error) {
			e := event{Event: "reclaimed", Dir: path, Lease: cli.LeaseHex(l.Lease), Owner: l.Owner}
			switch {
			case errors.Is(err, lease.ErrTakenOver):
				e.Event = "taken over"
			case err != nil:
				r.warn("%s: %v", cli.Plain(path), err)
			}
			seconds := after.Seconds()
			e.After = &seconds
			r.say(e)
		},
		Failing: func(l reclaim.Left, err error) {
			r.warn("%s: lease %s is not revoked yet: %v", cli.Plain(path), cli.LeaseHex(l.Lease), err)
		},
		Refused: func(name string, err error) { r.warn("%s: %s is left: %v", cli.Plain(path), cli.Plain(name), err) },
	}
}
