package show

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// A position is a position in a queue as a line of JSON.
type position struct {
	Name     string        `json:"name"`
	Kind     string        `json:"kind"`             // lock, election, semaphore
	Layout   string        `json:"layout,omitempty"` // etcd if the name is verbatim
	Position int           `json:"position"`         // 0 if it holds; waiters count from 1
	Holders  *int          `json:"holders,omitempty"`
	Waiters  *int          `json:"waiters,omitempty"`
	Mode     inspect.Mode  `json:"mode,omitempty"`  // exclusive, shared, semaphore, foreign
	Slot     *int          `json:"slot,omitempty"`  // the slot of a semaphore that it holds
	Limit    int           `json:"limit,omitempty"` // how many slots the semaphore has
	Names    []string      `json:"names,omitempty"` // of several names that are locked at once
	Key      string        `json:"key"`
	Form     string        `json:"form"`            // pawl, etcd, foreign
	Token    fencing.Token `json:"token"`           // 0 if it waits for a slot, and has none yet
	Lease    string        `json:"lease,omitempty"` // in hex; none if it stays until somebody deletes it
	TTL      float64       `json:"ttl,omitempty"`   // seconds, as granted
	Left     *float64      `json:"left,omitempty"`  // seconds, unless renewed
	Owner    string        `json:"owner,omitempty"`
	Host     string        `json:"host,omitempty"`
	PID      int           `json:"pid,omitempty"`
	Since    *time.Time    `json:"since,omitempty"`
	Held     *time.Time    `json:"heldSince,omitempty"` // of a holder, if it is known
	Stall    float64       `json:"stall,omitempty"`     // seconds without progress after which it is lost
	Value    string        `json:"value,omitempty"`     // a candidate's, its first KiB
	Revision int64         `json:"revision"`

	// These have, in base64, what JSON cannot represent as it is.
	NameBase64  string `json:"nameBase64,omitempty"`
	KeyBase64   string `json:"keyBase64,omitempty"`
	ValueBase64 string `json:"valueBase64,omitempty"`
}

// view converts what was read to positions.
type view struct {
	*inspect.Snapshot
	leases map[int64]inspect.Lease
	now    time.Time
}

// read reads a scope, and the leases of the positions that wanted selects.
func read(ctx context.Context, c *pawl.Client, scope inspect.Scope, wanted func(inspect.NamedQueue) []inspect.Position) (*view, error) {
	scope.Held = true
	s, err := inspect.Read(ctx, c, scope)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, l := range s.Queues {
		for _, p := range wanted(l) {
			ids = append(ids, p.Lease)
		}
	}
	leases, err := inspect.Leases(ctx, c, ids...)
	return &view{s, leases, time.Now()}, err
}

// layout names the layout of a queue, for people to read, or "" if it is pawl's own.
func layout(l inspect.NamedQueue) string {
	if l.EtcdLayout {
		return "etcd layout"
	}
	return ""
}

// queueOnly is a position without anything but its queue.
func (v *view) queueOnly(l inspect.NamedQueue) position {
	out := position{Name: l.Name, Kind: l.Kind(), Revision: v.Revision, NameBase64: cli.Base64(l.Name)}
	if l.EtcdLayout {
		out.Layout = "etcd"
	}
	return out
}

// position is a queue's i-th position as a line of JSON.
func (v *view) position(l inspect.NamedQueue, i int) position {
	p, out := l.Queue[i], v.queueOnly(l)
	out.Key, out.Form, out.Owner, out.Host, out.PID, out.Value = p.Key, p.Form.String(), p.Owner, p.Host, p.PID, string(p.Value)
	out.Mode, out.Limit, out.Names, out.Stall = p.Mode, p.Limit, p.Names, p.Stall.Seconds()
	out.KeyBase64, out.ValueBase64 = cli.Base64(p.Key), cli.Base64(string(p.Value))
	if !p.Holds {
		out.Position = i - len(l.Holders()) + 1
	}
	if p.HasSlot() {
		out.Slot = &p.Slot
	}
	if cli.HasToken(p) {
		out.Token = p.Token
	}
	if p.Form != inspect.Foreign {
		out.Kind = p.Kind()
	}
	if p.Lease != 0 {
		out.Lease = cli.LeaseHex(p.Lease)
	}
	if lease, ok := v.leases[p.Lease]; ok && !lease.Gone {
		left := lease.Left.Seconds()
		out.TTL, out.Left = lease.Granted.Seconds(), &left
	}
	if !p.Since.IsZero() {
		out.Since = &p.Since
	}
	if !p.HeldSince.IsZero() {
		out.Held = &p.HeldSince
	}
	return out
}
