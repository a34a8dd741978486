//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/testkit/launch"
)

// phantom deletes the key of a waiting candidate, lets the leader resign, and returns what the
// campaign returns.
func phantom(b *bench, k kit) string {
	op := b.operator()
	name := fmt.Sprintf("phantom-%d", time.Now().UnixNano())
	_, endpoints := b.network()
	c := k.client(b, endpoints)
	resign, err := c.session(10*time.Second).campaign(b.within(10*time.Second), name)
	b.must(err)
	returned := make(chan error, 1)
	go func() { // ends with its context
		_, err := c.session(10*time.Second).campaign(b.within(20*time.Second), name)
		returned <- err
	}()
	waitFor(10*time.Second, func() bool { return b.keys(op, name) == 2 })
	r, err := op.Get(b.within(10*time.Second), name+"/", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend))
	b.must(err)
	_, err = op.Delete(b.within(10*time.Second), string(r.Kvs[0].Key))
	b.must(err)
	time.Sleep(100 * time.Millisecond)
	_ = resign(b.within(10 * time.Second))
	if err := <-returned; err != nil {
		return "no: it returns an error that says why"
	}
	return fmt.Sprintf("yes, with %d keys", b.keys(op, name))
}

// childAfterLoss cuts off a command that runs a child under its lock, and
// measures how long the child lives after the server has dropped the lock.
func childAfterLoss(b *bench, k kit) string {
	const patience = 8 * time.Second
	op := b.operator()
	name := fmt.Sprintf("child-%d", time.Now().UnixNano())
	net, endpoints := b.network()
	pulse := filepath.Join(b.t.TempDir(), "pulse")
	cmd := k.command(b, endpoints, name, "sh", "-c", "while :; do touch "+pulse+"; sleep 0.02; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	b.must(cmd.Start())
	b.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = exec.Command("pkill", "-KILL", "-f", pulse).Run() // a child in a separate group
	})
	lives := func() (since time.Time) {
		info, err := os.Stat(pulse)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	if _, ok := waitFor(20*time.Second, func() bool { return !lives().IsZero() }); !ok {
		panic("the child never ran")
	}
	net.each((*faultproxy.Proxy).BlackHole)
	if _, ok := waitFor(40*time.Second, func() bool { return b.keys(op, name) == 0 }); !ok {
		panic("the lock's key never went")
	}
	gone := time.Now()
	time.Sleep(patience)
	switch last := lives().Sub(gone); {
	case last > patience-time.Second:
		return fmt.Sprintf("still after %v", patience)
	case last > 0:
		return fmt.Sprintf("%d ms", last.Milliseconds())
	default:
		return fmt.Sprintf("0 ms: dead %d ms before", -last.Milliseconds())
	}
}

// built builds a command of the module in folder, once.
func (b *bench) built(folder, pkg string, env ...string) string {
	if path := b.binaries[pkg]; path != "" {
		return path
	}
	root, err := launch.Root(context.Background())
	b.must(err)
	dir, err := os.MkdirTemp("", "compare")
	b.must(err)
	path := filepath.Join(dir, filepath.Base(filepath.Dir(pkg))+"-"+filepath.Base(pkg))
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", path, pkg)
	cmd.Dir = filepath.Join(root, folder)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	b.must(cmd.Run())
	b.binaries[pkg] = path
	return path
}
