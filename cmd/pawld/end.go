package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
)

// shutdownWait is how long calls may take to be answered, and writeWait how long their last bytes may
// take to be written.
const (
	shutdownWait = 3 * time.Second
	writeWait    = 100 * time.Millisecond
)

// shut ends the servers once no call is under way. It does not wait for connections that have sent
// nothing, or for streams of gRPC's reflection, because the clients' validities run out meanwhile.
func (d *daemon) shut(hurry context.Context) {
	ctx, end := context.WithTimeout(hurry, shutdownWait)
	defer end()
	var servers sync.WaitGroup
	for _, s := range d.servers {
		servers.Go(func() { // returns when ctx ends, at the latest
			if s.Shutdown(ctx) != nil {
				_ = s.Close()
			}
		})
	}
	go func() { // returns when ctx ends
		select {
		case <-d.api.Idle():
			time.AfterFunc(writeWait, end)
		case <-ctx.Done():
		}
	}()
	servers.Wait()
}

// awaitReleases continues to serve while clients hold locks, for --stop-grace. Clients that are stopped by the same
// signal, as all containers of a pod are, release theirs meanwhile. Otherwise nobody could until a successor serves.
func (d *daemon) awaitReleases(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.stopGrace)
	defer cancel()
	d.service.AwaitReleases(ctx)
}

// spaceWait is how long end continues to serve while etcd is out of space, which is as long as a
// successor would continue to try.
func spaceWait(maxTTL time.Duration) time.Duration { return 2 * maxTTL }

// awaitSpace continues to serve while etcd is out of space, for a while.
func (d *daemon) awaitSpace(ctx context.Context) {
	wait := spaceWait(d.maxTTL)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if d.service.AwaitSpace(ctx, rehearsalWait, func() {
		d.log.Error("etcd is out of space (NOSPACE), and a successor could take nothing over: pawld goes on serving until the alarm is disarmed",
			"at most", wait, "or until", "another signal")
	}) {
		return
	}
	d.log.Error("etcd has not said that it has space again: all locks are lost unless the alarm is disarmed while the successor tries to take them over", "for", wait)
}

// rehearsalWait is how long etcd may take to answer whether it has space, and hurriedWait how long the remaining work may
// take after a second signal, which ends all waiting. Tests of real processes set them.
var rehearsalWait, hurriedWait = time.Second, time.Second

// end stops the daemon. With SIGTERM or SIGHUP and a state directory it leaves what is held to a
// successor. Otherwise it releases it when all promises have passed. A second signal ends all waiting,
// unless it is another hangup, because a terminal that goes away may send several. How long it may
// take is stopWait, in the test that holds the units and manifests to it.
func (d *daemon) end(sig os.Signal, signals <-chan os.Signal) error {
	d.log.Info("stopping", "signal", sig.String())
	second, end := context.WithCancel(context.Background())
	defer end()
	go func() { // returns after second
		for {
			select {
			case again := <-signals:
				if again == syscall.SIGHUP {
					continue
				}
				d.log.Warn("not waiting any more", "signal", again.String())
				d.service.Hurry()
				end()
				return
			case <-second.Done():
				return
			}
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- d.stop(sig != syscall.SIGINT && d.dir != nil, second) }() // returns, or the process ends
	select {
	case err := <-ended:
		return err
	case <-second.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(hurriedWait):
		return errors.New("a second signal came, and not everything had ended: what is left of it is blocked until pawld's session at etcd has expired")
	}
}

// stop is end, with detach if a successor is to take over, until hurry ends.
func (d *daemon) stop(detach bool, hurry context.Context) error {
	if detach {
		d.awaitReleases(hurry)
		d.awaitSpace(hurry)
		d.service.AwaitValidity(hurry)
		d.service.AwaitRenewals(hurry)
	}
	d.service.Drain()
	d.shut(hurry)
	ctx, cancel := context.WithTimeout(hurry, d.maxTTL+d.lockDelay+shutdownWait)
	defer cancel()
	if !detach {
		return errors.Join(d.service.Close(ctx), d.client.Close())
	}
	if err := d.service.Detach(bounded(d.dir.Write)); err != nil { // nothing to take over, so release it
		return errors.Join(err, d.service.Close(ctx), d.client.Close())
	}
	if left := d.client.Close(); left != nil { // the successor removes it, or the lease does
		d.log.Info("not removed yet", "cause", left)
	}
	return nil
}

// stateWait is how long the state directory may take to write a file.
const stateWait = 5 * time.Second

// bounded is write, with an error if that takes too long, because the locks of a pawld that waits for
// its disk would be blocked for everybody. What is written later is of no use, and does no harm: without
// a Handle nothing can be taken over, and with it only what etcd still has.
func bounded(write func(service.Saved) error) func(service.Saved) error {
	return func(s service.Saved) error {
		written := make(chan error, 1)
		go func() { written <- write(s) }() // returns, or the process ends
		select {
		case err := <-written:
			return err
		case <-time.After(stateWait):
			return fmt.Errorf("state: not written within %v", stateWait)
		}
	}
}
