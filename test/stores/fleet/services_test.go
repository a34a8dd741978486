//go:build unix

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/grpcfence"
	"github.com/pawl-locks/pawl/fencing/httpfence"
	"github.com/pawl-locks/pawl/internal/testkit/fleet"
	"github.com/pawl-locks/pawl/internal/testkit/launch"
)

// sets is the state that the services own. With a gate, it admits under its mutex.
type sets struct {
	gate *fencing.Gate
	mu   sync.Mutex
	m    map[string]string
}

func (s *sets) do(ctx context.Context, resource string, write *string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gate != nil {
		if err := s.gate.AdmitContext(ctx); err != nil {
			return "", err
		}
	}
	if write != nil {
		s.m[resource] = *write
	}
	return s.m[resource], nil
}

func newSets(guard bool) *sets {
	s := &sets{m: map[string]string{}}
	if guard {
		s.gate = &fencing.Gate{}
	}
	return s
}

// serveHTTP serves the sets on a unix socket until the test ends, and returns its path.
func serveHTTP(t *testing.T, guard bool) string {
	s := newSets(guard)
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var write *string
		if r.Method == http.MethodPut {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // cut
			}
			value := string(body)
			write = &value
		}
		value, err := s.do(r.Context(), strings.TrimPrefix(r.URL.Path, "/"), write)
		var stale *fencing.StaleError
		if errors.As(err, &stale) {
			httpfence.WriteStale(w, stale)
			return
		}
		_, _ = io.WriteString(w, value)
	})
	if guard {
		h = httpfence.Handler(s.gate, h)
	}
	lis := listen(t)
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(lis) }() // ends when the server is closed
	t.Cleanup(func() { _ = server.Close() })
	return lis.Addr().String()
}

func listen(t *testing.T) net.Listener {
	lis, err := net.Listen("unix", filepath.Join(shortDir(t), "sock"))
	require.NoError(t, err)
	return lis
}

type httpStore struct {
	http *http.Client
	carrier
}

func openHTTP(path string, guard bool) (fleet.Store, error) {
	return httpStore{&http.Client{Transport: httpfence.Transport{Base: launch.Transport(path)}}, carrier{guard}}, nil
}

// A carrier puts tokens into contexts. Without the guard they are for another resource: a server
// without a guard does not look at them, and one with a guard registers nothing for the resource
// that is read.
type carrier struct{ guard bool }

func (c carrier) exclusive(ctx context.Context, resource string, t fencing.Token) context.Context {
	if !c.guard {
		return c.shared(ctx, resource, t)
	}
	return fencing.NewContext(ctx, resource, t)
}

func (c carrier) shared(ctx context.Context, resource string, t fencing.Token) context.Context {
	if !c.guard {
		resource = "another " + resource
	}
	return fencing.NewSharedContext(ctx, resource, t)
}

func (s httpStore) Close() error { return nil }

func (s httpStore) do(ctx context.Context, method, resource, value string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://store/"+resource, strings.NewReader(value))
	if err != nil {
		return "", err
	}
	resp, err := s.http.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if err := httpfence.Refused(resp); err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

func (s httpStore) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	return s.do(s.exclusive(ctx, resource, t), http.MethodGet, resource, "")
}

func (s httpStore) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	return s.do(s.shared(ctx, resource, t), http.MethodGet, resource, "")
}

func (s httpStore) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	_, err := s.do(s.exclusive(ctx, resource, t), http.MethodPut, resource, value)
	return err
}

// serveGRPC is the same over gRPC: the method is Read or Write, the request the resource and, after
// a line's end, the value.
func serveGRPC(t *testing.T, guard bool) string {
	s := newSets(guard)
	method := func(write bool) func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
		handle := func(ctx context.Context, req any) (any, error) {
			resource, value, _ := strings.Cut(req.(*wrapperspb.StringValue).GetValue(), "\n")
			var put *string
			if write {
				put = &value
			}
			got, err := s.do(ctx, resource, put)
			var stale *fencing.StaleError
			if errors.As(err, &stale) {
				err = grpcfence.Status(stale)
			}
			return wrapperspb.String(got), err
		}
		return func(_ any, ctx context.Context, decode func(any) error, next grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			if next == nil {
				return handle(ctx, in)
			}
			return next(ctx, in, &grpc.UnaryServerInfo{}, handle)
		}
	}
	opts := []grpc.ServerOption{grpc.MaxRecvMsgSize(1 << 30)}
	if guard {
		opts = append(opts, grpc.UnaryInterceptor(grpcfence.UnaryServerInterceptor(s.gate)))
	}
	server := grpc.NewServer(opts...)
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "Sets", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Read", Handler: method(false)}, {MethodName: "Write", Handler: method(true)}}}, s)
	lis := listen(t)
	go func() { _ = server.Serve(lis) }() // ends when the server is stopped
	t.Cleanup(server.Stop)
	return lis.Addr().String()
}

type grpcStore struct {
	*grpc.ClientConn
	carrier
}

func openGRPC(path string, guard bool) (fleet.Store, error) {
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30))}
	opts = append(opts, grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor()))
	conn, err := grpc.NewClient("unix://"+path, opts...)
	return grpcStore{conn, carrier{guard}}, err
}

func (s grpcStore) do(ctx context.Context, method, resource, value string) (string, error) {
	out := new(wrapperspb.StringValue)
	err := s.Invoke(ctx, "/Sets/"+method, wrapperspb.String(resource+"\n"+value), out)
	return out.GetValue(), err
}

func (s grpcStore) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	return s.do(s.exclusive(ctx, resource, t), "Read", resource, "")
}

func (s grpcStore) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	return s.do(s.shared(ctx, resource, t), "Read", resource, "")
}

func (s grpcStore) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	_, err := s.do(s.exclusive(ctx, resource, t), "Write", resource, value)
	return err
}
