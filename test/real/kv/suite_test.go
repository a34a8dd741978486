package kv_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/fencetest"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, s *etcdtest.Server) *kv.Client {
	t.Helper()
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c.KV()
}

// guarded keeps each resource's value in a key, written under a Guard. The suite chooses its tokens
// itself; here each stands for a holding of the lock, whose key is made when the token comes first.
type guarded struct {
	*kv.Client
	server *etcdtest.Server
	*locks
}

// locks are the holdings of each resource: the lock service, which all instances have in common.
type locks struct {
	mu   sync.Mutex
	line map[string]*holdings
}

// holdings are the tokens of one resource, and the create revisions of the lock's key under them.
type holdings struct {
	highest fencing.Token
	created map[fencing.Token]int64
}

// guard passes the lock on to the holder with t if none after it has it, and returns that holder's
// Guard.
func (g *guarded) guard(ctx context.Context, resource string, t fencing.Token) (kv.Guard, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.line[resource]
	if h == nil {
		h = &holdings{created: map[fencing.Token]int64{}}
		g.line[resource] = h
	}
	key := "locks/" + resource
	if t > h.highest {
		if _, err := g.Txn(ctx, kv.Txn{Then: []kv.Op{kv.Delete(key)}}); err != nil {
			return kv.Guard{}, err
		}
		res, err := g.Txn(ctx, kv.Txn{Then: []kv.Op{kv.Put(key, nil)}})
		if err != nil {
			return kv.Guard{}, err
		}
		h.highest, h.created[t] = t, res.Revision
	}
	return hooks.KVGuard(key, fencing.Token(max(h.created[t], 1)), nil).(kv.Guard), nil
}

func (g *guarded) do(ctx context.Context, resource string, t fencing.Token, op kv.Op) (kv.Result, error) {
	if err := fencing.Check(resource, t); err != nil {
		return kv.Result{}, err
	}
	guard, err := g.guard(ctx, resource, t)
	if err != nil {
		return kv.Result{}, err
	}
	res, err := g.Txn(ctx, kv.Txn{Guards: []kv.Guard{guard}, Then: []kv.Op{op}})
	if errors.Is(err, kv.ErrFenced) {
		g.mu.Lock()
		defer g.mu.Unlock()
		err = &fencing.StaleError{Resource: resource, Got: t, Highest: g.line[resource].highest}
	}
	return res, err
}

func (g *guarded) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	res, err := g.do(ctx, resource, t, kv.Get("values/"+resource))
	if err != nil {
		return "", err
	}
	return string(res.Gets[0].Value), nil
}

func (g *guarded) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	_, err := g.do(ctx, resource, t, kv.Put("values/"+resource, []byte(value)))
	return err
}

func TestGuardsPassTheSuite(t *testing.T) {
	fencetest.Suite{
		Open: func(t *testing.T) fencetest.Store {
			server := etcdtest.Start(t)
			c := dial(t, server)
			return &guarded{c, server, &locks{line: map[string]*holdings{}}}
		},
		Join: func(t *testing.T, s fencetest.Store) fencetest.Store {
			first := s.(*guarded)
			return &guarded{dial(t, first.server), first.server, first.locks}
		},
		Peek: func(ctx context.Context, s fencetest.Store, resource string) (string, error) {
			res, err := s.(*guarded).Txn(ctx, kv.Txn{Then: []kv.Op{kv.Get("values/" + resource)}})
			if err != nil {
				return "", err
			}
			return string(res.Gets[0].Value), nil
		},
		Restart: func(t *testing.T, s fencetest.Store) fencetest.Store {
			require.NoError(t, s.(*guarded).server.Restart())
			return s
		},
		LoseAnswer: func(ctx context.Context, s fencetest.Store, resource string, token fencing.Token, value string) error {
			if err := s.Write(ctx, resource, token, value); err != nil {
				return err
			}
			return kv.ErrUnknown
		},
	}.Run(t)
}
