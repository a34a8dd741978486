package handlers

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	pb "github.com/pawl-locks/pawl/cmd/pawld/pawlv1"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
)

// List implements the service.
func (c *calls) List(ctx context.Context, r *connect.Request[pb.ListRequest]) (*connect.Response[pb.ListResponse], error) {
	scopes, err := c.scopes(ctx, r.Msg)
	if err != nil {
		return nil, err
	}
	ctx, end, err := c.s.Locks.Serving(ctx)
	if err != nil {
		return nil, refusal(err)
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, etcdWait)
	defer cancel()
	queues, err := c.read(ctx, scopes)
	if err != nil {
		return nil, refusal(c.s.Locks.Silent(ctx, err))
	}
	return connect.NewResponse(c.listing(ctx, queues, r.Msg.Name != "")), nil
}

// maxList bounds the bytes of a List's answer to less than what a gRPC client accepts by default, 4
// MiB.
const maxList = 1 << 20

// listing is the answer with the queues of names that the caller may use. If empty is set, it
// includes those in which nobody is.
func (c *calls) listing(ctx context.Context, queues []inspect.NamedQueue, empty bool) *pb.ListResponse {
	answer := &pb.ListResponse{}
	mine := callerOf(ctx).identity
	size := 0
	for _, q := range queues {
		if c.may(ctx, q.Name) != nil || len(q.Queue) == 0 && !empty {
			continue
		}
		if size += len(q.Name); size > maxList {
			answer.More = true
			break
		}
		queue := &pb.ListResponse_Queue{Name: q.Name}
		answer.Queues = append(answer.Queues, queue)
		for _, p := range q.Queue {
			e := entry(p, mine)
			e.Names = slices.DeleteFunc(e.Names, func(name string) bool { return c.may(ctx, name) != nil })
			if size += proto.Size(e); size > maxList {
				answer.More = true
				break
			}
			queue.Entries = append(queue.Entries, e)
		}
	}
	return answer
}

// scopes are what a List reads. Of the whole namespace that is only what the policy gives the
// caller.
func (c *calls) scopes(ctx context.Context, m *pb.ListRequest) (all []inspect.Scope, err error) {
	if m.Name != "" {
		if m.Prefix != "" {
			return nil, invalid("name and prefix are given, want one")
		}
		return []inspect.Scope{{Name: m.Name}}, c.checkName(ctx, "name", m.Name)
	}
	who := callerOf(ctx)
	names, prefixes := c.s.Policy.Within(who.identity, who.local, m.Prefix)
	for _, name := range names {
		if keys.CheckName(name, false) == nil {
			all = append(all, inspect.Scope{Name: name})
		}
	}
	for _, prefix := range prefixes {
		all = append(all, inspect.Scope{Prefix: prefix})
	}
	return all, nil
}

// These bound reading for List, at a time for one call, and for all.
const (
	readsOfOne = 4
	readsOfAll = 16
)

// read reads the queues of scopes, some at a time, and returns them by name.
func (c *calls) read(ctx context.Context, scopes []inspect.Scope) ([]inspect.NamedQueue, error) {
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	var mu sync.Mutex
	var all []inspect.NamedQueue
	var readers sync.WaitGroup
	var next atomic.Int64 // the number of the next scope
	for range min(readsOfOne, len(scopes)) {
		readers.Go(func() { // returns when all are read, or one has failed
			for i := next.Add(1) - 1; i < int64(len(scopes)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				found, err := c.readOne(ctx, scopes[i])
				if err != nil {
					failed(err)
					return
				}
				mu.Lock()
				all = append(all, found...)
				mu.Unlock()
			}
		})
	}
	readers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b inspect.NamedQueue) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// readOne reads one scope, once not too many are being read.
func (c *calls) readOne(ctx context.Context, scope inspect.Scope) ([]inspect.NamedQueue, error) {
	if !c.s.reads.Enter(ctx) {
		return nil, context.Cause(ctx)
	}
	defer c.s.reads.Leave()
	found, err := inspect.Read(ctx, c.s.Client, scope)
	if err != nil {
		return nil, err
	}
	return found.Queues, nil
}

func entry(p inspect.Position, mine string) *pb.ListResponse_Entry {
	e := &pb.ListResponse_Entry{Owner: p.Owner, Host: p.Host, Token: int64(p.Token), Mode: string(p.Mode), Value: p.Value, Names: p.Names}
	if !p.Since.IsZero() {
		e.Since = p.Since.UTC().Format(time.RFC3339Nano)
	}
	e.Mine = owns(mine, p.Owner)
	return e
}
