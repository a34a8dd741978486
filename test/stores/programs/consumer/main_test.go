//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/shard"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

const partitions = 64

// fleet is processes of the program on one etcd and one database.
type fleet struct {
	*testing.T
	bin string
	env []string
	db  *sql.DB
	c   *pawl.Client
	all []*exec.Cmd
}

func newFleet(t *testing.T) *fleet {
	s := etcdtest.Start(t)
	f := &fleet{T: t, bin: filepath.Join(t.TempDir(), "consumer")}
	out, err := exec.Command("go", "build", "-o", f.bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	path := filepath.Join(t.TempDir(), "orders.db")
	f.env = append(os.Environ(), "ETCD="+s.Endpoints()[0], "DB="+path)
	f.db, err = sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.db.Close() })
	f.c, err = pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.c.Close() })
	t.Cleanup(func() {
		for _, p := range f.all {
			if p.ProcessState == nil {
				_ = p.Process.Kill()
				_ = p.Wait()
			}
		}
	})
	return f
}

func (f *fleet) start() *exec.Cmd {
	f.Helper()
	cmd := exec.Command(f.bin)
	cmd.Env, cmd.Stderr = f.env, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(f, cmd.Start())
	f.all = append(f.all, cmd)
	return cmd
}

// settled waits until these processes, and no others, share out the partitions evenly, and
// nothing moves.
func (f *fleet) settled(of ...*exec.Cmd) {
	f.Helper()
	var want []string
	for _, p := range of {
		want = append(want, fmt.Sprintf("pid %d", p.Process.Pid))
	}
	ctx, cancel := context.WithTimeout(f.Context(), testscale.Hang)
	defer cancel()
	for t, err := range shard.Observe(ctx, f.c, "orders") {
		require.NoError(f, err, "never settled")
		load := map[string]int{}
		still := len(t.Shards) == partitions && len(t.Members) == len(of)
		for _, s := range t.Shards {
			load[string(s.Value)]++
			still = still && s.Next == 0 && slices.Contains(want, string(s.Value))
		}
		for _, name := range want {
			still = still && load[name] >= partitions/len(of) && load[name] <= (partitions+len(of)-1)/len(of)
		}
		if still {
			return
		}
	}
}

// ends has a process leave in order.
func (f *fleet) ends(p *exec.Cmd) {
	f.Helper()
	require.NoError(f, p.Process.Signal(syscall.SIGTERM))
	require.NoError(f, p.Wait())
}

// Processes come, are killed and are stopped beyond their lease, and all are replaced one by one;
// each message of each partition is handled once.
// rule: SH1
func TestEachMessageIsHandledOnce(t *testing.T) {
	f := newFleet(t)
	n := testscale.Of(3, 8)
	var all []*exec.Cmd
	for range n {
		all = append(all, f.start())
	}
	f.settled(all...)

	killed, stopped := all[0], all[1]
	all = all[2:]
	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait()
	require.NoError(t, stopped.Process.Signal(syscall.SIGSTOP))
	f.settled(all...) // the others have everything
	require.NoError(t, stopped.Process.Signal(syscall.SIGCONT))
	all = append(all, stopped)
	f.settled(all...) // it has lost what it had, and takes its share again

	for i, old := range all { // a rolling restart
		all[i] = f.start()
		f.settled(append(slices.Clone(all), old)...)
		f.ends(old)
		f.settled(all...)
	}
	for _, p := range all {
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	}
	for _, p := range all {
		require.NoError(t, p.Wait())
	}
	rows, err := f.db.Query("SELECT number, next, handled FROM partitions ORDER BY number")
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	number := 0
	for ; rows.Next(); number++ {
		var i, next, handled int
		require.NoError(t, rows.Scan(&i, &next, &handled))
		assert.Equal(t, number, i)
		assert.Equal(t, next, handled, "partition %d", i)
		assert.Positive(t, next)
	}
	assert.Equal(t, partitions, number)
}
