package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// errSurvived is a mutant that no test has noticed.
var errSurvived = errors.New("not caught")

// A lab plants faults in the checkout at root.
type lab struct {
	root    string
	timeout time.Duration      // for the tests of one package
	caught  map[string]catcher // by the name of a fault, its catcher the last time

	mu    sync.Mutex
	sound map[string]error // by the name of a test, its result without a fault
}

// A finding is by which test a mutant was caught, or why it was not.
type finding struct {
	by  string
	err error
}

// start plants the faults one after the other, n at a time: most of the time of each is a linker's,
// which uses one processor. The findings are in the faults' order.
func (l *lab) start(faults []mutant, n int) []chan finding {
	findings := make([]chan finding, len(faults))
	for i := range findings {
		findings[i] = make(chan finding, 1)
	}
	go func() {
		running := make(chan struct{}, n)
		for i, m := range faults {
			running <- struct{}{}
			go func() {
				by, err := l.run(m)
				findings[i] <- finding{by, err}
				<-running
			}()
		}
	}()
	return findings
}

// A catcher is a test that notices a fault.
type catcher struct{ pkg, test string }

// oneTest is how long a single test may take, on a slow machine, too. With some faults it would never
// end.
const oneTest = 3 * time.Minute

// run plants a fault, and reports by which test it was caught.
func (l *lab) run(m mutant) (by string, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	planted, err := plant(l.root, dir, m.edits)
	if err != nil {
		return "", err
	}
	overlay, err := planted.overlay(dir)
	if err != nil {
		return "", err
	}
	if last := l.caught[m.name]; slices.Contains(m.catch, last.pkg) {
		by, err := l.fail(goTests(l.root, overlay, last.pkg, min(l.timeout, oneTest), "-run", "^"+last.test+"$"))
		if by != "" || err != nil {
			return by, err
		}
	}
	for _, pkg := range m.catch {
		tests := goTests(l.root, overlay, pkg, l.timeout)
		if others[pkg] != nil {
			tests, err = planted.testsOf(l.root, dir, pkg, l.timeout)
		}
		if err != nil {
			return "", err
		}
		by, err := l.fail(tests)
		if by != "" || err != nil {
			return by, err
		}
	}
	return "", errSurvived
}

// files are where the changed text of each changed file is.
type files map[string]string

// plant writes the changed files to dir.
func plant(root, dir string, edits []edit) (files, error) {
	replace := files{}
	for i, e := range edits {
		path := filepath.Join(root, e.file)
		from := path
		if other, ok := replace[path]; ok {
			from = other
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			return nil, fmt.Errorf("%s: the place is there %d times", e.file, n)
		}
		to := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			return nil, err
		}
		replace[path] = to
	}
	return replace, nil
}

// overlay writes what puts the files in place for the compiler.
func (f files) overlay(dir string) (path string, err error) {
	text, err := json.Marshal(map[string]any{"Replace": f})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// A suite is the tests of a folder, with the fault planted.
type suite struct {
	name    string // of the folder
	run     func(ctx context.Context) ([]byte, error)
	sound   func(ctx context.Context, test string) ([]byte, error) // one of its tests, without the fault
	timeout time.Duration
}

// goTests are the tests of a package of Go, or those of them that the arguments choose.
func goTests(root, overlay, pkg string, timeout time.Duration, which ...string) suite {
	run := func(ctx context.Context, args ...string) ([]byte, error) {
		args = append([]string{"test", "-vet=off", "-count=1", "-timeout", timeout.String()}, args...)
		cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "PAWL_PROOF=") // what everybody runs has to notice
		return cmd.CombinedOutput()
	}
	return suite{
		name: strings.TrimPrefix(pkg, "./"),
		run: func(ctx context.Context) ([]byte, error) {
			return run(ctx, append(which, "-overlay", overlay, "-failfast")...)
		},
		sound:   func(ctx context.Context, test string) ([]byte, error) { return run(ctx, "-run", "^"+test+"$") },
		timeout: 2*timeout + 20*time.Minute, // builds included
	}
}

// others are the folders whose tests are not Go's, and what runs them there.
var others = map[string][]string{
	inPython: {"python3", "-m", "unittest", "discover", "-f", "-s", "tests"},
	// One file after another, because with some faults a later one would wait for as long as its
	// tests may.
	inNode: {"sh", "-c", "for f in session close signal wanted failures; do node --test test/$f.test.js || exit; done"},
}

// testsOf are the tests of a folder in another language, in a copy of it.
func (f files) testsOf(root, dir, folder string, timeout time.Duration) (suite, error) {
	from, to := filepath.Join(root, folder), filepath.Join(dir, "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return suite{}, err
	}
	for path, changed := range f {
		within, err := filepath.Rel(from, path)
		if err != nil || !filepath.IsLocal(within) {
			return suite{}, fmt.Errorf("%s is not in %s", path, folder)
		}
		text, err := os.ReadFile(changed)
		if err != nil {
			return suite{}, err
		}
		if err := os.WriteFile(filepath.Join(to, within), text, 0o600); err != nil {
			return suite{}, err
		}
	}
	run := func(ctx context.Context, dir string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, others[folder][0], others[folder][1:]...)
		cmd.Dir = dir
		// What the tests have started, daemons too, ends with them. Otherwise a test that hangs
		// would leave it running, with the output open for which CombinedOutput waits.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		return cmd.CombinedOutput()
	}
	return suite{
		name:    strings.TrimPrefix(folder, "./"),
		run:     func(ctx context.Context) ([]byte, error) { return run(ctx, to) },
		sound:   func(ctx context.Context, _ string) ([]byte, error) { return run(ctx, from) },
		timeout: 2 * timeout,
	}, nil
}

// fail runs the tests, and says which of them fails first, or "" if none does.
func (l *lab) fail(s suite) (by string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	text, err := s.run(ctx)
	if err == nil {
		return "", nil
	}
	if strings.Contains(string(text), "[build failed]") || strings.Contains(string(text), "[setup failed]") {
		return "", fmt.Errorf("it does not compile: %s", text)
	}
	name := firstFailure(string(text))
	if name == "" {
		return "", fmt.Errorf("its tests end without a word: %s", text)
	}
	// The test must be at fault because of the mutant, and not because of the machine.
	top, _, _ := strings.Cut(name, "/")
	if err := l.isSound(ctx, s, top); err != nil {
		return "", err
	}
	if len(name) > 100 {
		name = top
	}
	return fmt.Sprintf("`%s`: `%s`", s.name, name), nil
}

// isSound runs a test without the fault, unless that has been done.
func (l *lab) isSound(ctx context.Context, s suite, test string) error {
	l.mu.Lock()
	err, ok := l.sound[s.name+test]
	l.mu.Unlock()
	if ok {
		return err
	}
	text, err := s.sound(ctx, test)
	if err != nil {
		err = fmt.Errorf("%s fails without the fault too: %s", test, text)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sound[s.name+test] = err
	return err
}

// firstFailure finds the test that failed, or in which the tests' process died.
func firstFailure(text string) string {
	for _, pattern := range []string{`(?m)^\s*--- FAIL: (\S+)`, `(?m)^(?:FAIL|ERROR): (test_\w+)`, `(?m)^\s*not ok \d+ - (.+)$`, `(?m)^  File ".*", line \d+ in (test_\w+)$`, `(?m)^\s+(Test\w+)(?:/\S*)? \(\d`, `\.(Test[A-Z]\w*)[.(]`} {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(text); found != nil {
			return found[1]
		}
	}
	return ""
}
