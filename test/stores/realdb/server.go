//go:build unix

package realdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// A server is one database server, started at most once. It waits for no disk, so what it has written
// survives its crash, but not the machine's.
type server struct {
	name  string
	start func(s *server) error
	// children is set if the server has child processes, which a SIGKILL would leave behind, and takes a
	// SIGQUIT for a crash.
	children bool

	once  sync.Once
	err   error // errAbsent, or why it did not start
	dir   string
	stop  func()       // a crash
	serve func() error // starts it, on what is there
}

var (
	errAbsent = errors.New("not installed")

	mu      sync.Mutex
	skipped []string
)

// Main runs the tests, stops the servers, looks for goroutines that are left, prints what was skipped,
// and returns what TestMain must exit with.
func Main(m *testing.M) int {
	code := m.Run()
	for _, s := range []*server{postgres, mariadb} {
		if s.stop != nil {
			s.stop()
		}
		if s.dir != "" { // also of one that did not start
			_ = os.RemoveAll(s.dir)
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(skipped)
	for _, line := range slices.Compact(skipped) {
		fmt.Fprintln(os.Stderr, line)
		testscale.Skipped(line)
	}
	return code
}

// Skip skips t because what is missing is not installed, or fails it if PAWL_REQUIRE_STORES is set.
func Skip(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("PAWL_REQUIRE_STORES") != "" {
		t.Fatalf("%s is not installed, and PAWL_REQUIRE_STORES is set", what)
	}
	mu.Lock()
	skipped = append(skipped, fmt.Sprintf("SKIPPED: %s was not tested by %s: it is not installed", what, filepath.Base(os.Args[0])))
	mu.Unlock()
	t.Skipf("%s is not installed", what)
}

func (s *server) use(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.err = s.start(s) })
	if errors.Is(s.err, errAbsent) {
		Skip(t, s.name)
	}
	if s.err != nil {
		t.Fatalf("%s: %v", s.name, s.err)
	}
	return s.dir
}

func (s *server) crash(t testing.TB) {
	t.Helper()
	s.use(t)
	s.stop()
	s.stop = nil
	if s.err = s.serve(); s.err != nil {
		t.Fatalf("%s: start after a crash: %v", s.name, s.err)
	}
}

// program finds a program in PATH or in one of the patterns, the last match of a pattern first.
func program(name string, patterns ...string) (string, error) {
	for _, p := range patterns {
		found, _ := filepath.Glob(filepath.Join(p, name))
		if len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("%s: %w", name, errAbsent)
}

// makeDir makes the server's directory. Its path is short, as a socket's must be.
func (s *server) makeDir() (err error) {
	if s.dir, err = os.MkdirTemp("/tmp", "pawl-db-"); err != nil {
		return err
	}
	if os.Getuid() == 0 {
		err = os.Chown(s.dir, nobody, nobody)
	}
	return err
}

const nobody = 65534

// command runs as nobody if the tests run as root, which the servers refuse, and dies with the tests.
func (s *server) command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "TMPDIR="+s.dir, "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	dieWithParent(cmd.SysProcAttr)
	return cmd
}

func (s *server) run(path string, args ...string) error {
	runtime.LockOSThread() // as in await: if another goroutine ended the thread, this would die too
	defer runtime.UnlockOSThread()
	out, err := s.command(path, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(path), err, out)
	}
	return nil
}

// await starts the server itself and waits until ready returns nil.
func (s *server) await(ready func(ctx context.Context) error, path string, args ...string) error {
	cmd := s.command(path, args...)
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	ended, started := make(chan error, 1), make(chan error, 1)
	go func() { // ends with the server, which stop waits for
		runtime.LockOSThread() // the kernel takes the death of the thread that started it for the parent's
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
		_ = log.Close()
	}()
	if err := <-started; err != nil {
		return err
	}
	s.stop = func() {
		if s.children {
			_ = cmd.Process.Signal(syscall.SIGQUIT)
		} else {
			_ = cmd.Process.Kill()
		}
		<-ended
	}
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case why := <-ended:
			ended <- why
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("it ended: %w\n%s", why, text)
		case <-ctx.Done():
			return fmt.Errorf("not ready within %v: %w", testscale.Hang, err)
		}
	}
}
