package observe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// A probe fails when the work outlives its lock by more than grace.
type probe struct {
	grace time.Duration
	held  atomic.Pointer[lock.Held] // nil: nothing is being done
	lost  atomic.Int64              // when a look first found it lost, in Unix nanoseconds
}

func (p *probe) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h := p.held.Load()
	if h == nil || h.Err() == nil {
		p.lost.Store(0)
		return // 200
	}
	now := time.Now().UnixNano()
	p.lost.CompareAndSwap(0, now)
	if late := time.Duration(now - p.lost.Load()); late > p.grace {
		http.Error(w, fmt.Sprintf("still at work %v after: %v", late, h.Err()), http.StatusServiceUnavailable)
	}
}

// A liveness probe for work that goes on though its lock is lost.
func Example_health() {
	t := exampletb.Begin() // in a test, its own *testing.T
	defer t.End()
	ctx := context.Background()
	cluster := pawltest.New(t)
	session, err := cluster.Client(t, pawl.Config{}).Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := &probe{}
	ask := func() int {
		answer := httptest.NewRecorder()
		p.ServeHTTP(answer, nil)
		return answer.Code
	}
	held, err := lock.New(session, "jobs", lock.Options{}).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	p.held.Store(held)
	fmt.Println("at work:", ask())
	cluster.Delete(held.Key()) // an operator
	<-held.Done()
	_ = ask()
	time.Sleep(time.Millisecond) // longer than grace, which is 0
	fmt.Println("it does not stop:", ask())
	p.held.Store(nil)
	fmt.Println("it has stopped:", ask())
	// Output:
	// at work: 200
	// it does not stop: 503
	// it has stopped: 200
}
