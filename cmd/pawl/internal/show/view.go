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
	Kind     string        `json:"kind"`             // lock, election
	Layout   string        `json:"layout,omitempty"` // etcd: the name is verbatim
	Position int           `json:"position"`         // 0: it holds
	Waiters  *int          `json:"waiters,omitempty"`
	Key      string        `json:"key"`
	Form     string        `json:"form"` // pawl, etcd, foreign
	Token    fencing.Token `json:"token"`
	Lease    string        `json:"lease,omitempty"` // in hex; none: it stays until somebody deletes it
	TTL      float64       `json:"ttl,omitempty"`   // seconds, as granted
	Left     *float64      `json:"left,omitempty"`  // seconds, unless renewed
	Owner    string        `json:"owner,omitempty"`
	Host     string        `json:"host,omitempty"`
	PID      int           `json:"pid,omitempty"`
	Since    *time.Time    `json:"since,omitempty"`
	Value    string        `json:"value,omitempty"` // a candidate's, its first KiB
	Revision int64         `json:"revision"`

	// What JSON cannot carry as it is.
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

// read reads a scope, and the leases of the positions that wanted picks.
func read(ctx context.Context, c *pawl.Client, scope inspect.Scope, wanted func(inspect.NamedQueue) []inspect.Position) (*view, error) {
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

func (v *view) position(l inspect.NamedQueue, i int) position {
	p := l.Queue[i]
	out := position{
		Name: l.Name, Kind: cli.KindOf(l.Election), Position: i, Key: p.Key, Form: p.Form.String(), Token: p.Token,
		Owner: p.Owner, Host: p.Host, PID: p.PID, Value: string(p.Value), Revision: v.Revision,
		NameBase64: cli.Base64(l.Name), KeyBase64: cli.Base64(p.Key), ValueBase64: cli.Base64(string(p.Value)),
	}
	if p.Form != inspect.Foreign {
		out.Kind = cli.KindOf(p.Election)
	}
	if l.EtcdLayout {
		out.Layout = "etcd"
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
	return out
}
