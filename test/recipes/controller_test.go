package recipes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// operate runs a manager while this process leads, a new one for each term. What it leads
// stops while the term still lasts.
func operate(ctx context.Context, client *pawl.Client, host string, newManager func() (manager.Manager, error)) error {
	options := elect.RunOptions{Value: []byte(host), StopInJeopardy: true}
	return elect.Run(ctx, client, "operator", options, func(ctx context.Context, _ *elect.Term) error {
		m, err := newManager() // with LeaderElection: false
		if err != nil {
			return err
		}
		return m.Start(ctx) // returns when ctx has ended, and its controllers with it
	})
}

func TestAManagerRunsWhileItsProcessLeads(t *testing.T) {
	etcd := pawltest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	running := make(chan context.Context)
	manager := func() (manager.Manager, error) {
		m, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{
			Metrics: server.Options{BindAddress: "0"}, GracefulShutdownTimeout: new(time.Duration),
		})
		if err != nil {
			return nil, err
		}
		return m, m.Add(managerFunc(func(ctx context.Context) error {
			running <- ctx
			<-ctx.Done()
			return nil
		}))
	}
	done := make(chan error)
	go func() { done <- operate(ctx, etcd.Client(t, pawl.Config{}), "host-1", manager) }()
	first := <-running
	assert.NoError(t, first.Err())
	l, err := elect.LeaderOf(ctx, etcd.Client(t, pawl.Config{}), "operator", elect.Options{})
	assert.NoError(t, err)
	etcd.Delete(l.Key) // an operator takes the lead from it
	<-first.Done()
	second := <-running
	stop()
	<-second.Done()
	assert.ErrorIs(t, <-done, context.Canceled)
}

// A managerFunc is a Runnable.
type managerFunc func(ctx context.Context) error

func (f managerFunc) Start(ctx context.Context) error { return f(ctx) }
