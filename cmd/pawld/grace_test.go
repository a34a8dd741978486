package main

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// As a pod's containers are, where pawld is no native sidecar.
func TestAClientThatIsStoppedTogetherWithPawldReleasesWhatItHolds(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			etcd := ofShared(t)
			p := start(t, etcd, "", "--state-dir", filepath.Join(t.TempDir(), "state"), "--stop-grace", testscale.Hang.String())
			p.hold(1, 1, "n")
			p.hold(2, 2, "m")
			p.signal(sig)
			p.awaitSaid("msg=stopping")
			for n := range 2 {
				p.call("Renew", object{"session": hex32(n + 1)}) // it serves on, while any is held
				p.call("Release", object{"session": hex32(n + 1)})
			}
			assert.Equal(t, 0, p.wait(), p.said())

			session, err := etcd.dial(t).NewSession(t.Context(), lease.Options{})
			require.NoError(t, err)
			for _, name := range []string{"n", "m"} {
				_, err = lock.New(session, name, lock.Options{}).TryAcquire(t.Context())
				assert.NoError(t, err, "it is free")
			}
			require.NoError(t, session.Close(t.Context()))
		})
	}
}

func TestALockOfAClientThatRemainsIsLeftToTheNextPawldAfterTheGrace(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	args := []string{"--state-dir", filepath.Join(t.TempDir(), "state"), "--stop-grace", "1ms"}
	p := start(t, etcd, "", args...)
	token := p.hold(1, 1, "n")["token"]
	p.stop(syscall.SIGTERM)
	assert.Equal(t, 0, p.cmd.ProcessState.ExitCode(), p.said())
	next := start(t, etcd, p.socket, args...)
	assert.Equal(t, token, next.hold(1, 1, "n")["token"])
}

func TestASecondSignalEndsTheGrace(t *testing.T) {
	t.Parallel()
	p := start(t, ofShared(t), "", "--state-dir", filepath.Join(t.TempDir(), "state"), "--stop-grace", testscale.Hang.String())
	p.hold(1, 1, "n")
	p.signal(syscall.SIGTERM)
	p.awaitSaid("msg=stopping")
	p.signal(syscall.SIGTERM)
	p.wait()
}
