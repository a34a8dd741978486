package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// demoTTL is the TTL of the sessions that the demo lets expire, the shortest allowed. The others have the
// usual one, so that a machine that is slow does not lose them.
const demoTTL = lease.MinTTL

// fact is one line from a contender to the demo.
type fact struct {
	Worker      string
	What        string // holds, read, wrote, woke, refused
	At          time.Time
	Token       fencing.Token `json:",omitempty"`
	Was, Became int64         `json:",omitempty"`
	Deadline    time.Time     `json:",omitzero"`
	Err         string        `json:",omitempty"`
	Lost        bool          `json:",omitempty"` // Err matches lock.ErrLost
	Stale       bool          `json:",omitempty"` // Err is the store's refusal
	Highest     fencing.Token `json:",omitempty"` // with Stale
}

// contender is one process of the demo that takes the lock.
type contender struct {
	worker, endpoint, file, name string
	rounds                       int
	work, ttl                    time.Duration
	careless                     bool // writes although it has found that the lock is lost, and works until it is asked to
	asked                        chan struct{}
	shards                       int // if not 0, it is a worker, of so many shards
	out                          *json.Encoder
}

func NewWorker() *cobra.Command {
	c := contender{out: json.NewEncoder(os.Stdout), asked: make(chan struct{})}
	cmd := &cobra.Command{
		Use:    "demo-worker",
		Short:  "One contender of pawl demo",
		Hidden: true,
		Args:   cli.Words(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			go func() { // ends with the process
				if n, _ := os.Stdin.Read(make([]byte, 1)); n > 0 {
					close(c.asked)
				}
				_, _ = io.Copy(io.Discard, os.Stdin)
				os.Exit(cli.ExitFailed) // the demo is gone
			}()
			if c.shards != 0 {
				return c.runShards(context.Background())
			}
			return c.run(context.Background())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&c.worker, "worker", "", "who it is")
	fs.StringVar(&c.endpoint, "endpoint", "", "the demo's etcd server")
	fs.StringVar(&c.file, "file", "", "the demo's SQLite file")
	fs.StringVar(&c.name, "name", "", "the lock")
	fs.IntVar(&c.rounds, "rounds", 1, "how often to take it")
	fs.DurationVar(&c.work, "work", 0, "how long it thinks between reading and writing")
	fs.DurationVar(&c.ttl, "ttl", lease.DefaultTTL, "of its session")
	fs.IntVar(&c.shards, "shards", 0, "how many shards the name has; it shares them out with others")
	fs.BoolVar(&c.careless, "careless", false, "think until a byte comes on stdin, and write even when the lock is lost")
	return cmd
}

func (c contender) say(f fact) {
	f.Worker, f.At = c.worker, time.Now()
	_ = c.out.Encode(f) // if the demo has died, the closed stdin ends this process
}

func (c contender) run(ctx context.Context) error {
	s, err := openStore(c.file)
	if err != nil {
		return err
	}
	defer s.db.Close()
	client, err := pawl.Dial(ctx, pawl.Config{
		Endpoints: []string{c.endpoint}, Session: lease.Options{TTL: c.ttl, Owner: c.worker},
	})
	if err != nil {
		return err
	}
	defer client.Close()
	for range c.rounds {
		if err := c.round(ctx, s, client); err != nil {
			return err
		}
	}
	return nil
}

// acquire takes the lock, again if its session has ended before: a stall ends one of demoTTL.
func (c contender) acquire(ctx context.Context, client *pawl.Client) (*lock.Held, error) {
	for {
		session, err := client.Session(ctx)
		if err != nil {
			return nil, err
		}
		h, err := lock.New(session, c.name, lock.Options{}).Acquire(ctx)
		if err == nil || session.Err() == nil {
			return h, err
		}
	}
}

// round is one read-modify-write under the lock. Reading and writing are two transactions, which
// the lock makes one step.
func (c contender) round(ctx context.Context, s *store, client *pawl.Client) error {
	h, err := c.acquire(ctx, client)
	if err != nil {
		return err
	}
	defer h.Release(ctx)
	c.say(fact{What: "holds", Token: h.Token()})
	value, err := s.read(ctx, c.name, h.Token())
	if err != nil {
		return err
	}
	c.say(fact{What: "read", Token: h.Token(), Was: value, Deadline: h.Deadline()})
	time.Sleep(c.work)
	if c.careless {
		<-c.asked
	}
	if err := h.Err(); err != nil { // the first check after the work
		c.say(fact{What: "woke", Token: h.Token(), Err: err.Error(), Lost: errors.Is(err, lock.ErrLost)})
		if !c.careless {
			return err
		}
	} else if c.careless {
		c.say(fact{What: "woke", Token: h.Token()})
	}
	w := write{Worker: c.worker, Token: h.Token(), Was: value, Became: value + 1}
	err = s.write(ctx, c.name, w)
	var stale *fencing.StaleError
	switch {
	case errors.As(err, &stale):
		c.say(fact{What: "refused", Token: h.Token(), Err: err.Error(), Stale: true, Highest: stale.Highest})
		return nil
	case err != nil:
		return err
	}
	c.say(fact{What: "wrote", Token: w.Token, Was: w.Was, Became: w.Became})
	return nil
}
