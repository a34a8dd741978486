// Package handlers serves the API of pawld over HTTP. It identifies the caller, checks what the
// caller may do and whether the request is valid, and answers. Package registry decides what happens
// to locks.
package handlers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/peer"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/policy"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
	"github.com/pawl-locks/pawl/cmd/pawld/pawlv1/pawlv1connect"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/gate"
)

// A Server serves the API.
type Server struct {
	Locks  *service.Service
	Client *pawl.Client
	Policy *policy.Policy
	Logger *slog.Logger
	Calls  *peer.Limit // on calls under way, except those of Upkeep
	Upkeep *peer.Limit // on renewals and releases under way, of each identity

	reads    gate.Gate // entered to read a scope for List
	requests sync.Map  // counters, *atomic.Int64, by outcome
	calls    underway
}

// Idle is closed when no call that has arrived as a whole is under way.
func (s *Server) Idle() <-chan struct{} { return s.calls.none() }

// underway counts what is under way.
type underway struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n is 0; nil until somebody waits
}

func (u *underway) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n++
}

func (u *underway) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n--; u.n == 0 && u.idle != nil {
		close(u.idle)
		u.idle = nil
	}
}

// none returns a channel that is closed when nothing is under way.
func (u *underway) none() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.idle == nil {
		u.idle = make(chan struct{})
	}
	idle := u.idle
	if u.n == 0 {
		close(u.idle)
		u.idle = nil
	}
	return idle
}

// MaxBody bounds a request's body, before and after decompression.
const MaxBody = 64 << 10

// ReadWait is http.Server's ReadTimeout. It bounds how long a request may take to arrive, from its first
// byte to its last, even if no handler reads it, because net/http then reads the rest.
const ReadWait = 10 * time.Second

// Handler is the API, with gRPC's health and reflection.
func (s *Server) Handler() http.Handler {
	s.reads = gate.New(readsOfAll)
	mux := http.NewServeMux()
	limits := []connect.HandlerOption{
		connect.WithReadMaxBytes(MaxBody), connect.WithInterceptors(connect.UnaryInterceptorFunc(s.counted)), connect.WithCodec(strict{"json"}), connect.WithCodec(strict{"json; charset=utf-8"}),
		connect.WithRecover(func(_ context.Context, spec connect.Spec, _ http.Header, v any) error {
			s.Logger.Error("a handler panicked", "call", spec.Procedure, "panic", v)
			return connect.NewError(connect.CodeInternal, errors.New("internal error"))
		}),
	}
	route, api := pawlv1connect.NewLocksHandler(&calls{s}, limits...)
	mux.Handle(route, s.whole(api))
	route, check := grpchealth.NewHandler(health{s.Locks}, connect.WithReadMaxBytes(MaxBody))
	mux.Handle(route, s.whole(check))
	reflector := grpcreflect.NewStaticReflector(pawlv1connect.LocksName)
	mux.Handle(grpcreflect.NewHandlerV1(reflector, connect.WithReadMaxBytes(MaxBody)))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, connect.WithReadMaxBytes(MaxBody)))
	return s.identified(WithVersion(mux))
}

// An outcome is a call and its result: ok, or the code of its error.
type outcome struct{ call, code string }

// counted counts a call.
func (s *Server) counted(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, r)
		o := outcome{path.Base(r.Spec().Procedure), "ok"}
		if err != nil {
			o.code = connect.CodeOf(err).String()
		}
		s.count(o)
		return resp, err
	}
}

func (s *Server) count(o outcome) {
	n, _ := s.requests.LoadOrStore(o, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// Requests yields how often each call had which outcome, in order.
func (s *Server) Requests(yield func(call, code string, n int64)) {
	counts := map[outcome]int64{}
	s.requests.Range(func(o, n any) bool {
		counts[o.(outcome)] = n.(*atomic.Int64).Load()
		return true
	})
	for _, o := range slices.SortedFunc(maps.Keys(counts), func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a.call, b.call), cmp.Compare(a.code, b.code))
	}) {
		yield(o.call, o.code, counts[o])
	}
}

// caller is who sent a request, and when it arrived.
type caller struct {
	identity string
	local    bool
	arrival  clock.Instant
}

type callerKey struct{}

func callerOf(ctx context.Context) caller { return ctx.Value(callerKey{}).(caller) }

// identified reads the clock before anything else, and refuses callers without an identity.
func (s *Server) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := caller{arrival: clock.Now()}
		var err error
		if c.identity, c.local, err = peer.Identify(r); err != nil {
			w.Header().Set("Connection", "close")
			refuse(w, r, connect.CodeUnauthenticated, err, http.StatusUnauthorized)
			return
		}
		if !s.Policy.Knows(c.identity, c.local) && !s.Locks.Knows(c.identity) { // before anything of the caller's is counted
			s.count(outcome{"any", connect.CodePermissionDenied.String()})
			refuse(w, r, connect.CodePermissionDenied, fmt.Errorf("the policy gives %q no names", c.identity), http.StatusForbidden)
			return
		}
		limit := s.Calls
		switch r.URL.Path {
		case pawlv1connect.LocksRenewProcedure, pawlv1connect.LocksReleaseProcedure:
			limit = s.Upkeep // calls that wait for locks must not block these
		}
		if err := limit.Take(c.identity); err != nil { // before anything of it is read
			s.count(outcome{"any", connect.CodeResourceExhausted.String()})
			refuse(w, r, connect.CodeResourceExhausted, err, http.StatusTooManyRequests)
			return
		}
		defer limit.Give(c.identity)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

var errorWriter = connect.NewErrorWriter()

// refuse answers a request that no handler gets, in the form of its protocol, or with status if the
// protocol has none.
func refuse(w http.ResponseWriter, r *http.Request, code connect.Code, err error, status int) {
	if errorWriter.IsSupported(r) {
		_ = errorWriter.Write(w, r, connect.NewError(code, err))
		return
	}
	http.Error(w, err.Error(), status)
}

// whole reads the body before the call, within a limit of size and within ReadWait. It then removes that
// deadline, because a parked call has no deadline on its connection.
func (s *Server) whole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := http.NewResponseController(w)
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
		if err != nil { // the deadline stays, because net/http reads the rest of the body before it answers
			code := connect.CodeInvalidArgument
			if large := new(http.MaxBytesError); errors.As(err, &large) {
				code, err = connect.CodeResourceExhausted, fmt.Errorf("the body has more than %d bytes", MaxBody)
			}
			refuse(w, r, code, err, http.StatusBadRequest)
			return
		}
		s.calls.begin() // not before, so that a body that does not end does not delay an upgrade
		defer s.calls.end()
		_ = conn.SetReadDeadline(time.Time{})
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// strict is JSON in which an unknown field is an error, because a misspelt waitMs would otherwise
// mean no wait.
type strict struct{ name string }

// Name implements connect.Codec.
func (c strict) Name() string { return c.name }

// Marshal implements connect.Codec.
func (strict) Marshal(v any) ([]byte, error) { return protojson.Marshal(v.(proto.Message)) }

// Unmarshal implements connect.Codec.
func (strict) Unmarshal(b []byte, v any) error {
	if err := protojson.Unmarshal(b, v.(proto.Message)); err != nil {
		return fmt.Errorf("the body is not what this call takes: %w", err)
	}
	return nil
}

// refusal is the error of a call.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	code := connect.CodeUnavailable
	var e *registry.Error
	switch {
	case errors.As(err, new(*connect.Error)): // the policy's
		return err
	case errors.As(err, &e):
		code = codes[e.Code]
	case errors.Is(err, service.ErrNoTerm), errors.Is(err, peer.ErrNoProcess):
		code = connect.CodeInvalidArgument
	case cluster.IsPermissionDenied(err):
		code = connect.CodePermissionDenied
	case errors.Is(err, pawl.ErrTokenFloor), errors.Is(err, peer.ErrNoPIDFD), errors.Is(err, peer.ErrExited):
		code = connect.CodeFailedPrecondition
	}
	return connect.NewError(code, err)
}

var codes = map[registry.Code]connect.Code{
	registry.Invalid: connect.CodeInvalidArgument,
	registry.Denied:  connect.CodePermissionDenied,
	registry.Unknown: connect.CodeNotFound,
	registry.Ended:   connect.CodeInvalidArgument,
	registry.Full:    connect.CodeResourceExhausted,
	registry.Again:   connect.CodeUnavailable,
}

// health is gRPC's health service. It reports whether a lock can be acquired.
type health struct{ locks *service.Service }

// Check implements grpchealth.Checker.
func (h health) Check(ctx context.Context, r *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if r.Service != "" && r.Service != pawlv1connect.LocksName {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("unknown service %q", r.Service))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if h.locks.Ready(ctx) != nil {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}
