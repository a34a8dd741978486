//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/shard"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// Two processes of the program tell what they measure. In the proof the test waits for them to even it out.
// rule: SH14
func TestTheMessagesAreSharedOut(t *testing.T) {
	s := etcdtest.Start(t)
	bin := filepath.Join(t.TempDir(), "rates")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	defer c.Close()
	for range 2 {
		p := exec.Command(bin)
		p.Env, p.Stderr = append(os.Environ(), "ETCD="+s.Endpoints()[0]), os.Stderr
		require.NoError(t, p.Start())
		defer func() {
			assert.NoError(t, p.Process.Signal(syscall.SIGTERM))
			assert.NoError(t, p.Wait())
		}()
	}
	ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
	defer cancel()
	for table, err := range shard.Observe(ctx, c, "events") {
		require.NoError(t, err, "it never comes to that")
		if len(table.Members) == 2 && told(table) && (!testscale.Proof() || even(table)) {
			return
		}
	}
}

// told reports whether the workers tell the loads of all shards.
func told(t shard.Table) bool {
	n := 0
	for _, m := range t.Members {
		n += m.Measured
	}
	return n == shards
}

// even reports whether each has about half of the messages.
func even(t shard.Table) bool {
	a, b := t.Members[0].Load, t.Members[1].Load
	return max(a, b) <= 1.2*(a+b)/2 && a+b > 150
}
