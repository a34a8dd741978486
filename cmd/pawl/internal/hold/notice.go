package hold

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/lock"
)

// A notice is one event, as a line for people or for programs.
type notice struct {
	Event    string        `json:"event"`           // waiting, skipped, held, lost, released, elected, …
	Name     string        `json:"name"`            // of several names that are locked at once, the first
	Names    []string      `json:"names,omitempty"` // of several, all
	Key      string        `json:"key,omitempty"`
	Keys     []string      `json:"keys,omitempty"` // one for each of Names
	Mode     string        `json:"mode,omitempty"` // of a lock: exclusive, shared, semaphore
	Slot     *int          `json:"slot,omitempty"` // of a semaphore
	Token    fencing.Token `json:"token,omitempty"`
	Lease    string        `json:"lease,omitempty"` // in hex, as etcdctl writes it
	TTL      float64       `json:"ttl,omitempty"`   // seconds
	Deadline *time.Time    `json:"deadline,omitempty"`
	Term     int64         `json:"term,omitempty"`
	Value    string        `json:"value,omitempty"`
	Cause    string        `json:"cause,omitempty"`
	Holder   string        `json:"holder,omitempty"`  // of waiting: who holds it, since when, and how many are served earlier
	Holders  int           `json:"holders,omitempty"` // of waiting: how many hold it, if not one
	Since    *time.Time    `json:"since,omitempty"`
	Ahead    int           `json:"ahead,omitempty"`
	Time     time.Time     `json:"time"`

	// These have, in base64, what JSON cannot represent as it is.
	NameBase64   string `json:"nameBase64,omitempty"`
	KeyBase64    string `json:"keyBase64,omitempty"`
	ValueBase64  string `json:"valueBase64,omitempty"`
	HolderBase64 string `json:"holderBase64,omitempty"`
}

// text formats n for people to read.
func (n notice) text() string {
	s := n.Event + " " + strconv.Quote(n.Name)
	for _, name := range n.Names[min(1, len(n.Names)):] {
		s += ", " + strconv.Quote(name)
	}
	if n.Mode == lock.ModeShared.String() {
		s += " shared"
	}
	if n.Slot != nil {
		s += fmt.Sprintf(" slot=%d", *n.Slot)
	}
	if n.Term != 0 {
		s += fmt.Sprintf(" term=%d", n.Term)
	}
	if n.Key != "" {
		s += " key=" + cli.Plain(n.Key)
	}
	for _, key := range n.Keys {
		s += " key=" + cli.Plain(key)
	}
	if n.Token != 0 {
		s += fmt.Sprintf(" token=%d", n.Token)
	}
	if n.Lease != "" {
		s += fmt.Sprintf(" lease=%s ttl=%v", n.Lease, time.Duration(n.TTL*float64(time.Second)))
	}
	if n.Deadline != nil {
		s += " until=" + n.Deadline.Format(cli.ClockTime) + " unless renewed, as it is"
	}
	if n.Cause != "" {
		s += ": " + n.Cause
	}
	return s
}

// reporter writes notices. It is used from one goroutine at a time.
type reporter struct {
	w    io.Writer
	json bool
}

// say writes n. It ignores errors, because a closed pipe is no reason to release a lock.
func (r reporter) say(n notice) {
	if r.w == nil {
		return
	}
	n.Time = time.Now()
	if !r.json {
		_, _ = fmt.Fprintln(r.w, n.text())
		return
	}
	n.NameBase64, n.KeyBase64 = cli.Base64(n.Name), cli.Base64(n.Key)
	n.ValueBase64, n.HolderBase64 = cli.Base64(n.Value), cli.Base64(n.Holder)
	line, _ := json.Marshal(n) // of plain fields: cannot fail
	_, _ = r.w.Write(append(line, '\n'))
}
