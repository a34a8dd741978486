//go:build linux

package main

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// floorWatch is one stream that carries all watches of a client.
type floorWatch struct {
	mu     sync.Mutex // held while a message is sent
	stream pb.Watch_WatchClient
	last   int64 // watch ID
	wait   map[int64]chan struct{}
}

// gone returns when key is deleted, at revision from or later.
func (w *floorWatch) gone(ctx context.Context, c *floorClient, key string, from int64) error {
	id, deleted, err := w.create(c, key, from, noPuts)
	if err != nil {
		return err
	}
	select {
	case <-deleted:
	case <-ctx.Done():
		return ctx.Err()
	}
	return w.cancel(id)
}

func (w *floorWatch) cancel(id int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{
		CancelRequest: &pb.WatchCancelRequest{WatchId: id},
	}})
}

var noPuts = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}

func (w *floorWatch) create(c *floorClient, key string, from int64, filters []pb.WatchCreateRequest_FilterType) (id int64, deleted chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stream == nil {
		if w.stream, err = c.conn.Watch(c.ctx); err != nil {
			return 0, nil, err
		}
		w.wait = map[int64]chan struct{}{}
		go w.receive(w.stream) // ends with the process
	}
	w.last++
	deleted = make(chan struct{})
	w.wait[w.last] = deleted
	return w.last, deleted, w.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte(key), StartRevision: from, WatchId: w.last, Filters: filters},
	}})
}

func (w *floorWatch) receive(stream pb.Watch_WatchClient) {
	for {
		r, err := stream.Recv()
		if err != nil {
			return
		}
		for _, ev := range r.Events {
			if ev.Type != mvccpb.Event_DELETE {
				continue
			}
			w.mu.Lock()
			deleted := w.wait[r.WatchId]
			delete(w.wait, r.WatchId)
			w.mu.Unlock()
			if deleted != nil {
				close(deleted)
			}
		}
	}
}
