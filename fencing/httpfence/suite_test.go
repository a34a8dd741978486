package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/fencetest"
	"github.com/pawl-locks/pawl/fencing/httpfence"
)

// A service keeps values in memory. Its handler admits once more under the mutex of the values, as
// the package comment says.
type service struct {
	mu     sync.Mutex
	gate   fencing.Gate
	values map[string]string
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, _, ok := fencing.FromContext(r.Context())
	if !ok {
		resource, _, _ = fencing.FromSharedContext(r.Context())
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var stale *fencing.StaleError
	if errors.As(s.gate.AdmitContext(r.Context()), &stale) {
		httpfence.WriteStale(w, stale)
		return
	}
	if r.Method == http.MethodPut {
		s.values[resource] = string(body)
	}
	_, _ = io.WriteString(w, s.values[resource])
}

// client is the suite's Store, which speaks to the service over HTTP.
type client struct {
	*service
	*httptest.Server
	http http.Client
	lose atomic.Bool // the next answer
}

func open(t *testing.T, s *service) *client {
	c := &client{service: s, Server: httptest.NewServer(httpfence.Handler(&s.gate, s))}
	t.Cleanup(c.Close)
	c.http.Transport = httpfence.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := c.Client().Transport.RoundTrip(r)
		if err == nil && c.lose.Swap(false) {
			_ = resp.Body.Close()
			return nil, errors.New("connection reset by peer")
		}
		return resp, err
	})}
	return c
}

type carry func(ctx context.Context, resource string, t fencing.Token) context.Context

func (c *client) do(ctx context.Context, carry carry, method, resource string, t fencing.Token, value string) (string, error) {
	if err := fencing.Check(resource, t); err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(carry(ctx, resource, t), method, c.URL, strings.NewReader(value))
	if err != nil {
		return "", err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if err := httpfence.Refused(resp); err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != 200 {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

func (c *client) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	return c.do(ctx, fencing.NewContext, http.MethodGet, resource, t, "")
}

func (c *client) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	return c.do(ctx, fencing.NewSharedContext, http.MethodGet, resource, t, "")
}

func (c *client) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	_, err := c.do(ctx, fencing.NewContext, http.MethodPut, resource, t, value)
	return err
}

func TestServiceBehindHandlerPassesTheSuite(t *testing.T) {
	fencetest.Suite{
		Open: func(t *testing.T) fencetest.Store { return open(t, &service{values: map[string]string{}}) },
		Join: func(t *testing.T, s fencetest.Store) fencetest.Store { return open(t, s.(*client).service) },
		Peek: func(_ context.Context, s fencetest.Store, resource string) (string, error) {
			c := s.(*client)
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.values[resource], nil
		},
		Restart: func(t *testing.T, s fencetest.Store) fencetest.Store {
			old := s.(*client)
			old.Close()
			again := &service{values: maps.Clone(old.values)}
			if err := again.gate.Restore(old.gate.Snapshot()); err != nil {
				t.Fatal(err)
			}
			return open(t, again)
		},
		LoseAnswer: func(ctx context.Context, s fencetest.Store, resource string, token fencing.Token, value string) error {
			s.(*client).lose.Store(true)
			return s.Write(ctx, resource, token, value)
		},
	}.Run(t)
}
