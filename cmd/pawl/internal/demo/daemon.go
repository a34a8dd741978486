package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/clients/python"
	"github.com/pawl-locks/pawl/internal/backoff"
)

// The third part runs pawld as a process, and does not link it. pawld is a separate module, whose
// dependencies would otherwise be forced on users of this command, and its binary is also useful
// separately. A released pawl finds the pawld that was released with it; in a checkout, it is
// built.

//go:embed contender.py
var contenderPy string

// tools are what the third part needs.
type tools struct {
	pawld, python string
	missing       error // why there is no third part
}

// searchLimit bounds the search. On a slow machine, a build with nothing cached takes minutes.
const searchLimit = 15 * time.Minute

// A search looks for the tools while the other parts run.
type search struct {
	cancel context.CancelFunc
	done   chan struct{}
	found  tools // read after done
}

// findDaemon looks for what the third part needs, and builds what is missing in dir.
func findDaemon(ctx context.Context, dir string) *search {
	ctx, cancel := context.WithTimeout(ctx, searchLimit)
	s := &search{cancel: cancel, done: make(chan struct{})}
	go func() { // ends with ctx
		defer close(s.done)
		s.found = findTools(ctx, dir)
	}()
	return s
}

// limit bounds what comes when the search has ended. Until then, a build takes the CPUs.
func (s *search) limit(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with ctx
		select {
		case <-s.done:
		case <-ctx.Done():
			return
		}
		if backoff.Sleep(ctx, demoLimit) {
			cancel(fmt.Errorf("not done within %v", demoLimit))
		}
	}()
	return ctx, func() { cancel(nil) }
}

// dismiss ends the search, and waits for its end.
func (s *search) dismiss() {
	s.cancel()
	<-s.done
}

func findTools(ctx context.Context, dir string) (t tools) {
	if runtime.GOOS != "linux" {
		return tools{missing: errors.New("pawld knows who uses its Unix socket on Linux alone")}
	}
	if t.python, t.missing = findPython(ctx); t.missing == nil {
		t.pawld, t.missing = findPawld(ctx, dir)
	}
	return t
}

// findPython finds a Python that runs the client and the store.
func findPython(ctx context.Context) (string, error) {
	path, err := exec.LookPath("python3")
	if err != nil {
		return "", errors.New("there is no python3 in PATH")
	}
	out, err := exec.CommandContext(ctx, path, "-c", "import sys, sqlite3, ssl\nsys.exit(sys.version_info < (3, 9) and 'older than 3.9')").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s does not do: %s", path, lastLine(out, err))
	}
	return path, nil
}

// findPawld finds the daemon beside this program or in PATH, or builds it in dir from the checkout
// that this program was built from.
func findPawld(ctx context.Context, dir string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "pawld")); err == nil {
			return path, nil
		}
	}
	if path, err := exec.LookPath("pawld"); err == nil {
		return path, nil
	}
	source, ok := checkout()
	if !ok {
		return "", errors.New("there is no pawld beside pawl or in PATH")
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		return "", errors.New("there is no pawld beside pawl or in PATH, and no go to build it")
	}
	path := filepath.Join(dir, "pawld")
	build := exec.CommandContext(ctx, tool, "build", "-tags", "small", "-o", path, ".")
	build.Dir = source
	build.Env = append(os.Environ(), "GOTMPDIR="+dir)
	build.Cancel = func() error { return build.Process.Signal(os.Interrupt) } // so that it ends its compilers
	build.WaitDelay = 5 * time.Second
	if out, err := build.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("go build %s: not done within %v", source, searchLimit)
		}
		return "", fmt.Errorf("go build %s: %s", source, lastLine(out, err))
	}
	return path, nil
}

// checkout is where the source of pawld is, if this program was built from a checkout without -trimpath.
// Released programs were built with it.
func checkout() (string, bool) {
	_, file, _, _ := runtime.Caller(0)
	if !filepath.IsAbs(file) {
		return "", false
	}
	dir := filepath.Join(filepath.Dir(file), "..", "..", "..", "pawld")
	_, err := os.Stat(filepath.Join(dir, "main.go"))
	return dir, err == nil
}

func lastLine(out []byte, err error) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return err.Error()
}

// daemon runs the third part: a holder in Python, through pawld.
func (d *demo) daemon(ctx context.Context, dir string, s *search) (shown string, err error) {
	building := time.NewTimer(time.Second)
	defer building.Stop()
	for found := false; !found; {
		select {
		case <-s.done:
			found = true
		case <-building.C:
			d.print("\nThe next part needs pawld, which is looked for, and built if need be.")
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if s.found.missing != nil {
		d.print("\n3. Left out, a Python process that holds a lock through the daemon pawld: %v.", s.found.missing)
		return "", nil
	}
	d.print("\n3. A Python process holds a lock through the daemon pawld, and is stopped. A Go process waits behind it.")
	socket, err := d.startPawld(ctx, dir, s.found.pawld)
	if err != nil {
		return "", err
	}
	p, err := d.pause(ctx, pausing{
		name: "invoice", first: "hal", second: "ivy", holds: "holds %q, which pawld keeps until %s unless it is renewed",
		hire: func(who, name string) (*worker, error) {
			return d.hirePython(dir, s.found.python, who, socket, name)
		},
		freed: "pawld gave back what hal did not renew",
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("  - a Python process that held its lock through pawld found the same when it woke, and its token %d\n    was refused for %d, that of a Go process without pawld: they were in one queue.\n",
		p.first.Token, p.second.Token), nil
}

// startPawld starts the daemon, and returns the socket that it serves.
func (d *demo) startPawld(ctx context.Context, dir, program string) (socket string, err error) {
	socket = filepath.Join(dir, "pawld.sock")
	cmd := exec.Command(program, "--endpoints", d.server.Endpoint, "--socket", socket)
	for _, v := range os.Environ() { // its flags contain all that it needs
		if !strings.HasPrefix(v, "ETCDCTL_") && !strings.HasPrefix(v, "PAWL_NAMESPACE=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	w, err := startProcess("pawld", cmd)
	if err != nil {
		return "", err
	}
	d.crew = append(d.crew, w)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := net.Dial("unix", socket)
		if err == nil {
			d.line(time.Now(), "pawld", 0, "serves %s, process %d", filepath.Base(socket), w.cmd.Process.Pid)
			return socket, c.Close()
		}
		select {
		case <-w.exited:
			return "", fmt.Errorf("pawld: %w; its stderr: %s", w.end, &w.stderr)
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for pawld to serve: %w", context.Cause(ctx))
		}
	}
}

// hirePython starts a contender in Python, with the client beside it.
func (d *demo) hirePython(dir, program, who, socket, name string) (*worker, error) {
	dir = filepath.Join(dir, "python")                                                    // the client is a directory "pawld", as the program may be named
	if err := os.CopyFS(dir, python.Client); err != nil && !errors.Is(err, fs.ErrExist) { // beside another contender
		return nil, err
	}
	script := filepath.Join(dir, "contender.py")
	if err := os.WriteFile(script, []byte(contenderPy), 0o600); err != nil {
		return nil, err
	}
	w, err := startProcess(who, exec.Command(program, "-B", script, who, socket, d.file, name, strconv.FormatFloat(demoTTL.Seconds(), 'f', -1, 64)))
	if err == nil {
		d.crew = append(d.crew, w)
	}
	return w, err
}
