//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/txn"
)

// These scenarios measure only pawl, alone and together, where its writes may not share requests,
// and where requests fail.

// repeats is how often a run repeats what ends at once.
const repeats = 3

// direct connects to the server without a proxy.
func (w *worker) direct() error {
	conn, err := connect(w.Addr)
	if err == nil {
		w.raw = pb.NewKVClient(conn)
	}
	return err
}

// keys waits until n keys have prefix, polling every millisecond.
func (w *worker) keys(ctx context.Context, prefix string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		r, err := w.raw.Range(ctx, &pb.RangeRequest{Key: []byte(prefix), RangeEnd: txn.PrefixEnd(prefix), CountOnly: true})
		if err != nil {
			return fmt.Errorf("%d keys under %s: %w", n, prefix, err)
		}
		if r.Count == int64(n) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// acquireAll makes n lockers acquire, each in a separate goroutine. wait waits for all, and returns
// the first error.
func acquireAll(ctx context.Context, n int, l func(i int) locker) (wait func() error) {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		l := l(i)
		all.Go(func() { _, errs[i] = l.acquire(ctx) })
	}
	return func() error {
		all.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// oneName is n waiters of one session that come at once to a held lock. P50 is the time until
// all are in the queue.
func oneName(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := errors.Join(w.direct(), w.grow(ctx, 2)); err != nil {
		return f, err
	}
	var took []time.Duration
	for i := range repeats {
		name := fmt.Sprintf("%s-%d", w.Tag, i)
		if _, err := w.sessions[0].locker(name).acquire(ctx); err != nil {
			return f, err
		}
		waiting, cancel := context.WithCancel(ctx)
		start := time.Now()
		wait := acquireAll(waiting, n, func(int) locker { return w.sessions[1].locker(name) })
		err := w.keys(ctx, name+"/", n+1)
		took = append(took, time.Since(start))
		cancel()
		if _ = wait(); err != nil { // they gave up
			return f, err
		}
	}
	return timesOf(took), nil
}

// givenUp makes n waiters of one session give up, with another waiter behind them. P50 is from
// the call of the holder's release to the other's acquisition.
func givenUp(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := errors.Join(w.direct(), w.grow(ctx, 3)); err != nil {
		return f, err
	}
	var took []time.Duration
	for i := range repeats {
		name := fmt.Sprintf("%s-%d", w.Tag, i)
		first, err := w.sessions[0].locker(name).acquire(ctx)
		if err != nil {
			return f, err
		}
		waiting, cancel := context.WithCancel(ctx)
		wait := acquireAll(waiting, n, func(int) locker { return w.sessions[1].locker(name) })
		err = w.keys(ctx, name+"/", n+1)
		if err == nil {
			last := acquireAll(ctx, 1, func(int) locker { return w.sessions[2].locker(name) })
			err = w.keys(ctx, name+"/", n+2)
			time.Sleep(4 * w.Scenario.RTT) // until the last watches are created
			cancel()
			_ = wait() // they gave up
			start := time.Now()
			err = errors.Join(err, first.release(ctx), last())
			took = append(took, time.Since(start))
		}
		cancel()
		if err != nil {
			return f, err
		}
	}
	return timesOf(took), nil
}

// lostAnswers makes the server apply n enqueues, each sent alone, and loses all their answers. P50
// is the time from their failure until all have been settled and have their locks. An interceptor
// withholds the answers, because so many requests would not be sent if the network did. The
// connection stays, because connecting again takes as long however the settling is sent.
func lostAnswers(ctx context.Context, w *worker, n int) (f figures, err error) {
	k, ok := w.kit.(pawlKit)
	if !ok {
		return f, errors.New("only pawl settles")
	}
	var lose atomic.Pointer[chan struct{}] // of what is sent now, closed when all are lost; nil if none is
	var answered sync.WaitGroup            // all whose answers are to be lost
	var left atomic.Int64                  // how many are still to be sent, settlings not counted
	k.options = []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		lost := lose.Load()
		isLost := lost != nil && method == pb.KV_Txn_FullMethodName && left.Add(-1) >= 0
		err := invoke(ctx, method, req, reply, conn, opts...)
		if !isLost {
			return err
		}
		answered.Done()
		select {
		case <-*lost:
		case <-ctx.Done():
		}
		return status.Error(codes.Unavailable, "the answer was lost")
	})}
	proxy, err := faultproxy.New(w.Addr)
	if err != nil {
		return f, err
	}
	defer proxy.Close()
	proxy.SetDelay(w.Scenario.RTT/2, w.Scenario.RTT/2)
	if w.client, err = k.dial(ctx, proxy.Addr()); err != nil {
		return f, err
	}
	if err := errors.Join(w.direct(), w.grow(ctx, 1)); err != nil {
		return f, err
	}
	s := w.sessions[0].(pawlSession)
	m := &meter{addr: w.Addr}
	var took []time.Duration
	for i := range repeats {
		prefix := fmt.Sprintf("%s-%d-", w.Tag, i)
		s.batch(0)
		lost := make(chan struct{})
		answered.Add(n)
		left.Store(int64(n))
		lose.Store(&lost)
		wait := acquireAll(ctx, n, func(i int) locker { return s.locker(fmt.Sprint(prefix, i)) })
		if err := w.keys(ctx, prefix, n); err != nil {
			return f, err
		}
		answered.Wait()
		if !k.alone {
			s.batch(floorParts)
		}
		lose.Store(nil)
		if err := m.start(); err != nil {
			return f, err
		}
		start := time.Now()
		close(lost)
		if err := wait(); err != nil {
			return f, err
		}
		took = append(took, time.Since(start))
		if err := m.stop(); err != nil {
			return f, err
		}
	}
	f = m.figures(n * repeats)
	f.P50, f.P99 = quantiles(took)
	return f, nil
}

func timesOf(took []time.Duration) (f figures) {
	f.Ops = len(took)
	for _, d := range took {
		f.Wall += d.Seconds()
	}
	f.Wall /= float64(len(took))
	f.P50, f.P99 = quantiles(took)
	return f
}

// noSpace releases n locks and acquires as many others while the server has no space. Share is
// that of releases that returned no error.
func noSpace(ctx context.Context, w *worker, n int) (f figures, err error) {
	if err := errors.Join(w.direct(), w.grow(ctx, 1)); err != nil {
		return f, err
	}
	locks := make([]held, n)
	err = each(64, n, func(i int) (err error) {
		locks[i], err = w.sessions[0].locker(fmt.Sprintf("%s-%d", w.Tag, i)).acquire(ctx)
		return err
	})
	if err != nil {
		return f, err
	}
	conn, err := connect(w.Addr)
	if err != nil {
		return f, err
	}
	alarms := pb.NewMaintenanceClient(conn)
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	raised, err := alarms.Alarm(ctx, alarm)
	if err != nil {
		return f, err
	}
	waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	refused := acquireAll(waiting, n, func(i int) locker { return w.sessions[0].locker(fmt.Sprintf("%s-no-%d", w.Tag, i)) })
	start, took, failed := time.Now(), make([]time.Duration, n), make([]bool, n)
	_ = each(n, n, func(i int) error {
		err := locks[i].release(waiting)
		took[i], failed[i] = time.Since(start), err != nil
		return nil
	})
	cancel()
	_ = refused()
	f = timesOf(took)
	for _, failed := range failed {
		if !failed {
			f.Share += 1 / float64(n)
		}
	}
	for _, a := range raised.Alarms {
		_, e := alarms.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: a.Alarm, MemberID: a.MemberID})
		err = errors.Join(err, e)
	}
	return f, err
}
