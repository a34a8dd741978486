package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/handlers"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/peer"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/policy"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/statefile"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// A restarted is one pawld after another, on an etcd in memory, with one state directory.
type restarted struct {
	t     *testing.T
	fake  *etcdfake.Cluster
	dir   *statefile.Dir
	rules *policy.Policy
	d     *daemon               // the last one
	l     atomic.Pointer[pipes] // of the last one, closed once it does not serve any more
}

func newRestarted(t *testing.T) *restarted {
	r := &restarted{t: t, fake: etcdfake.New(etcdfake.Options{Members: 3}), rules: policyOf(t, "token:local n")}
	t.Cleanup(r.fake.Close)
	var err error
	r.dir, err = statefile.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.dir.Close() })
	return r
}

func (r *restarted) start() {
	log := slog.New(slog.DiscardHandler)
	client, err := pawl.Dial(r.t.Context(), pawl.Config{Endpoints: r.fake.Endpoints(), DialOptions: []grpc.DialOption{r.fake.DialOption()}, Lazy: true})
	require.NoError(r.t, err)
	served := service.New(client, service.Config{Logger: log, Registry: registry.Config{DefaultTTL: minTTL, MinTTL: minTTL, MaxTTL: longest, Sessions: 10, Locks: 10, Keep: time.Minute}})
	r.d = &daemon{options: options{maxTTL: longest}, log: log, dir: r.dir, client: client, service: served}
	if left, ok, err := r.dir.Read(); ok {
		require.NoError(r.t, err)
		_, err = served.Resume(r.t.Context(), left.Claimed())
		require.NoError(r.t, err)
		require.NoError(r.t, r.dir.Discard())
	}
	r.d.api = &handlers.Server{Locks: served, Client: client, Policy: r.rules, Logger: log, Calls: peer.NewLimit("calls", 10), Upkeep: upkeepOf(r.rules)}
	l := newPipes()
	r.l.Store(&l)
	server := r.d.server(listener{Listener: l, peers: &peer.Listener{Kind: peer.Token, Token: peer.TokenIs(bearer), Hosts: func(string) bool { return true }}}, r.d.api.Handler())
	r.d.servers = []*http.Server{server}
	go func() { _ = server.Serve(l) }() // ends with stop
}

// holder is a client that holds a lock.
func (r *restarted) holder() *thin {
	c := newThin(r.caller()).of(longest)
	r.t.Cleanup(c.close)
	acquired(r.t, c, nil)
	return c
}

// stop leaves all to the next one, or gives it back.
func (r *restarted) stop(detach bool) {
	require.NoError(r.t, r.d.stop(detach, context.Background()))
}

// caller calls the one that serves.
func (r *restarted) caller() caller {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		l := r.l.Load()
		select {
		case l.conns <- theirs:
			return ours, nil
		case <-l.closed:
			return nil, errors.New("nobody serves")
		}
	}}}
	return func(method string, body object) (object, error) {
		status, out, err := post(client, "http://x/pawl.v1.Locks/"+method, marshal(body), "Authorization", "Bearer "+bearer)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d: %v", status, out)
		}
		return out, err
	}
}

// Whenever pawld stops, and whether a client waits less after a call that failed, as the page wants
// it, or not: when another one serves ten seconds later, it believes still.
// rule: V10
func TestALockOutlivesARestartOfTenSeconds(t *testing.T) {
	for name, parks := range map[string]func(left time.Duration, answered bool) time.Duration{
		"as the page says": func(left time.Duration, answered bool) time.Duration {
			if !answered {
				return 0
			}
			return min(longest/4, left/2)
		},
		"whatever is left": func(time.Duration, bool) time.Duration { return longest / 4 },
	} {
		for at := time.Duration(0); at < longest/4+time.Second; at += 250 * time.Millisecond {
			t.Run(fmt.Sprint(name, " ", at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRestarted(t)
					r.start()
					c := newThin(r.caller()).of(longest)
					t.Cleanup(c.close)
					c.parks = parks
					acquired(t, c, nil)
					time.Sleep(20*time.Second + at)
					r.stop(true)
					time.Sleep(10 * time.Second)
					r.start()
					time.Sleep(20 * time.Second)
					assert.True(t, believes(t, c))
					r.stop(false)
				})
			})
		}
	}
}

// Etcd that does not answer for a moment has not said that it has space, be it before it is asked for
// the first time or later.
func TestPawldThatWaitsForSpaceServesOnWhileEtcdIsSilent(t *testing.T) {
	for silent, long := range map[time.Duration]time.Duration{0: 3 * time.Second, 5 * time.Second: 7 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := newRestarted(t)
			r.start()
			c := r.holder()
			r.fake.SetNoSpace(true)
			stopped := make(chan error, 1)
			time.AfterFunc(silent, func() {
				r.fake.BlackHole()
				time.AfterFunc(long, r.fake.Heal)
			})
			synctest.Wait()
			go func() { stopped <- r.d.stop(true, context.Background()) }() // ends when there is space
			time.Sleep(silent + long + 5*time.Second)
			select {
			case <-stopped:
				t.Fatalf("it has left its locks to one that can take nothing over; silent after %v", silent)
			default:
			}
			assert.True(t, believes(t, c))
			r.fake.SetNoSpace(false)
			require.NoError(t, <-stopped)
			r.start()
			time.Sleep(20 * time.Second)
			assert.True(t, believes(t, c))
			r.stop(false)
		})
	}
}

// Etcd that answers nothing at all may be out of space or not; a successor finds that out.
func TestPawldDoesNotWaitForSpaceInAnEtcdThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRestarted(t)
		r.start()
		r.holder()
		r.fake.BlackHole()
		began := time.Now()
		assert.True(t, r.d.service.AwaitSpace(t.Context(), time.Second, func() { t.Error("nobody has said that it is full") }))
		assert.Equal(t, 4*time.Second, time.Since(began))
		r.fake.Heal()
		r.stop(false)
	})
}

// A second signal ends the process, whatever of its end hangs.
func TestASecondSignalWaitsForNothingThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRestarted(t)
		r.start()
		r.holder()
		r.fake.BlackHole() // so that nothing can be given back
		signals := make(chan os.Signal)
		began := time.Now()
		time.AfterFunc(time.Second, func() { signals <- syscall.SIGTERM })
		assert.ErrorContains(t, r.d.end(syscall.SIGINT, signals), "a second signal came, and not everything had ended")
		assert.Equal(t, time.Second+hurriedWait, time.Since(began))
		time.Sleep(time.Minute) // until what hung has given up: a bubble's clock stands still when its test has returned
	})
}

// A lock that ends within a millisecond is still held, and its answer gives nothing to believe in.
func TestAnAnswerJustBeforeTheEndExtendsNoValidity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRestarted(t)
		r.start()
		c := newThin(r.caller()).of(longest)
		t.Cleanup(c.close)
		acquired(t, c, object{"maxHoldMs": 1000.0})
		time.Sleep(time.Second - 500*time.Microsecond)
		sent := clock.Now()
		got, err := c.call("Renew", object{"session": c.session})
		require.NoError(t, err)
		listed := got["locks"].([]any)[0].(object)
		assert.Equal(t, "HELD", listed["state"])
		assert.NotContains(t, listed, "validForMs")
		assert.Empty(t, c.believe(sent, got))
		assert.False(t, believes(t, c))
		r.stop(false)
	})
}
