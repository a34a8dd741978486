package ui

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// These bound what is shown of one queue.
const (
	maxQueue = 100 // positions
	maxText  = 512 // bytes of an owner, a host
)

// A queueView is an inspect.NamedQueue for the browser. Numbers beyond JavaScript's exact integers
// are text. Times are in milliseconds.
type queueView struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Kind      string         `json:"kind"`             // lock, election, semaphore
	Layout    string         `json:"layout,omitempty"` // etcd if the name is verbatim
	Prefix    string         `json:"prefix"`
	Holding   int            `json:"holding"`
	Waiting   int            `json:"waiting"`
	Limit     int            `json:"limit,omitempty"` // how many slots a semaphore has
	Sum       string         `json:"sum,omitempty"`   // "3 readers, 1 writer waiting", "2 of 3 slots"
	Positions []positionView `json:"positions"`       // the first ones
}

// A positionView is an inspect.Position for the browser.
type positionView struct {
	Token fencing.Token `json:"token,string"`
	Key   string        `json:"key"`
	Form  string        `json:"form"`
	Mode  inspect.Mode  `json:"mode"`
	Holds bool          `json:"holds,omitempty"`
	Slot  *int          `json:"slot,omitempty"`  // the slot of a semaphore that it holds
	Names []string      `json:"names,omitempty"` // of several names that are locked at once
	Lease string        `json:"lease,omitempty"` // in hex
	Owner string        `json:"owner,omitempty"`
	Host  string        `json:"host,omitempty"`
	PID   int           `json:"pid,omitempty"`
	Since int64         `json:"since,omitempty"` // by its holder's clock
	Held  int64         `json:"held,omitempty"`  // since when, as observed; 0 if before the page's server began
	Value string        `json:"value,omitempty"`
	Size  int           `json:"size,omitempty"`
}

// idOf returns a queue's ID in requests, in which every byte of its prefix is encoded.
func idOf(prefix string) string { return base64.RawURLEncoding.EncodeToString([]byte(prefix)) }

func prefixOf(id string) (string, bool) {
	prefix, err := base64.RawURLEncoding.DecodeString(id)
	return string(prefix), err == nil
}

func viewOf(l inspect.NamedQueue) queueView {
	out := queueView{
		ID: idOf(l.Prefix), Name: text(l.Name), Kind: l.Kind(), Prefix: text(l.Prefix), Holding: len(l.Holders()), Waiting: len(l.Waiters()), Limit: l.Limit(),
		Sum: cli.Sum(l),
	}
	if l.EtcdLayout {
		out.Layout = "etcd"
	}
	for _, p := range l.Queue[:min(len(l.Queue), maxQueue)] {
		out.Positions = append(out.Positions, positionOf(p))
	}
	return out
}

func positionOf(p inspect.Position) positionView {
	out := positionView{
		Token: p.Token, Key: text(p.Key), Form: p.Form.String(), Owner: clip(p.Owner), Host: clip(p.Host), PID: p.PID,
		Since: millis(p.Since), Held: millis(p.HeldSince), Mode: p.Mode, Holds: p.Holds,
	}
	if p.HasSlot() {
		out.Slot = &p.Slot
	}
	for _, name := range p.Names {
		out.Names = append(out.Names, text(name))
	}
	if p.Lease != 0 {
		out.Lease = strconv.FormatInt(p.Lease, 16)
	}
	if p.Election {
		out.Value, out.Size = strings.ToValidUTF8(string(p.Value), "\uFFFD"), p.Size
	}
	return out
}

// text is s, quoted if JSON could not represent it.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strconv.Quote(s)
}

// clip is at most maxText bytes of s, which anybody may have written.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// millis is t for the browser, or 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// same reports whether a browser that shows a needs no update to show b.
func same(a, b inspect.NamedQueue) bool {
	if a.Kind() != b.Kind() || cli.Sum(a) != cli.Sum(b) || len(a.Queue) != len(b.Queue) || len(a.Holders()) != len(b.Holders()) {
		return false
	}
	for i := range a.Queue[:min(len(a.Queue), maxQueue)] {
		x, y := &a.Queue[i], &b.Queue[i]
		if x.Key != y.Key || x.Token != y.Token || x.Modified != y.Modified || x.Lease != y.Lease ||
			x.Form != y.Form || x.Holds != y.Holds || !x.HeldSince.Equal(y.HeldSince) {
			return false
		}
	}
	return true
}
