//go:build unix

package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process is one worker.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
	err   strings.Builder
}

func (y *yard) start(t testing.TB, who int) *process {
	log := filepath.Join(y.dir, fmt.Sprintf("log%d", len(y.logs)))
	y.logs = append(y.logs, log)
	text, err := json.Marshal(order{Who: who, Store: y.fleet.Store, Address: y.fleet.Address, Guard: y.fleet.Guard, Authority: filepath.Join(y.dir, "authority"), Log: log,
		Resources: resources, Readers: y.fleet.Readers, MinThink: time.Millisecond, Think: y.fleet.TTL / 6, Seed: y.rnd.Uint64()})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), orderVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that no other process wakes it while it is stopped
	dieWithParent(p.cmd.SysProcAttr)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { // ends with the process, which kill and finish wait for
		runtime.LockOSThread() // the kernel takes the death of the thread that started it for the parent's
		defer close(p.ended)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	y.all = append(y.all, p)
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// finish waits, within a bound, until the worker, whose standard input is closed, has ended its
// round.
func (p *process) finish() {
	select {
	case <-p.ended:
	case <-time.After(2 * opTime):
		p.kill()
	}
}
