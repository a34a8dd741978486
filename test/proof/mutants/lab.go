package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	timeout time.Duration // for the tests of one package
	sources *sources
	every   bool // all tests are run, and all that fail are found

	mu    sync.Mutex
	sound map[string]error // by the name of a test, its result without a fault
}

// A finding is by which tests a fault was caught, or why it was not.
type finding struct {
	by  []catcher
	err error
}

// A catcher is a test of a folder that notices a fault.
type catcher struct{ folder, test string }

// first returns the name of the first test that noticed the fault, without its subtest.
func (f finding) first() string {
	top, _, _ := strings.Cut(f.by[0].test, "/")
	return top
}

// String returns the cell of the table.
func (f finding) String() string {
	var cell []string
	for _, c := range f.by {
		if len(c.test) > 100 {
			c.test, _, _ = strings.Cut(c.test, "/")
		}
		cell = append(cell, fmt.Sprintf("`%s`: `%s`", c.folder, c.test))
	}
	return strings.Join(cell, ", ")
}

// start plants the faults one after the other, n at a time: most of the time of each is a linker's,
// which uses one processor. The findings are in the faults' order.
func (l *lab) start(faults []fault, n int) []chan finding {
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

// oneTest is how long a single test may take, on a slow machine, too. With some faults it would never
// end.
const oneTest = 3 * time.Minute

// run plants a fault, and reports by which tests it was caught.
func (l *lab) run(f fault) ([]catcher, error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	planted, err := l.sources.plant(f)
	if err != nil {
		return nil, err
	}
	overlay, err := planted.overlay(l.root, dir)
	if err != nil {
		return nil, err
	}
	if pkg := l.packageOf(f); pkg != "" && !l.every {
		by, err := l.fail(goTests(l.root, overlay, pkg, min(l.timeout, oneTest), "-run", "^"+f.by+"$"))
		if by != nil || err != nil {
			return by, err
		}
	}
	var by []catcher
	for _, pkg := range f.tests {
		tests := goTests(l.root, overlay, pkg, l.timeout)
		if others[pkg] != nil {
			tests, err = planted.testsOf(l.root, dir, pkg, l.timeout)
		} else if l.every {
			tests = goTests(l.root, overlay, pkg, l.timeout, "-failfast=false")
		}
		if err != nil {
			return nil, err
		}
		some, err := l.fail(tests)
		if by = append(by, some...); err != nil || len(by) > 0 && !l.every {
			return by, err
		}
	}
	if len(by) == 0 {
		err = errSurvived
	}
	return by, err
}

// packageOf returns the folder, of those whose tests are to notice the fault, with the test that caught
// it the last time; "" if there is none in Go.
func (l *lab) packageOf(f fault) string {
	for _, pkg := range f.tests {
		files, err := filepath.Glob(filepath.Join(l.root, pkg, "*_test.go"))
		if err != nil || f.by == "" {
			return ""
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "\nfunc "+f.by+"(") {
				return pkg
			}
		}
	}
	return ""
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
		cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "PAWL_PROOF=") // what everybody runs has to notice
		return cmd.CombinedOutput()
	}
	return suite{
		name: pkg,
		run: func(ctx context.Context) ([]byte, error) {
			return run(ctx, append([]string{"-overlay", overlay, "-failfast"}, which...)...)
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
	inNode: {"sh", "-c", "for f in session close cleanup signal settings wanted failures; do node --test test/$f.test.js || exit; done"},
}

// testsOf are the tests of a folder in another language, in a copy of it.
func (f files) testsOf(root, dir, folder string, timeout time.Duration) (suite, error) {
	from, to := filepath.Join(root, folder), filepath.Join(dir, "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return suite{}, err
	}
	for file, text := range f {
		within, err := filepath.Rel(folder, file)
		if err != nil || !filepath.IsLocal(within) {
			return suite{}, fmt.Errorf("%s is not in %s", file, folder)
		}
		if err := os.WriteFile(filepath.Join(to, within), []byte(text), 0o600); err != nil {
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
		name:    folder,
		run:     func(ctx context.Context) ([]byte, error) { return run(ctx, to) },
		sound:   func(ctx context.Context, _ string) ([]byte, error) { return run(ctx, from) },
		timeout: 2 * timeout,
	}, nil
}

// fail runs the tests, and says which of them fail; where the lab does not want every one, only the
// first. It returns none if all pass.
func (l *lab) fail(s suite) (by []catcher, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	text, err := s.run(ctx)
	if err == nil {
		return nil, nil
	}
	if strings.Contains(string(text), "[build failed]") || strings.Contains(string(text), "[setup failed]") {
		return nil, fmt.Errorf("it does not compile: %s", text)
	}
	names := failures(string(text))
	if len(names) == 0 {
		return nil, fmt.Errorf("its tests end without a word: %s", text)
	}
	if !l.every {
		names = names[:1]
	}
	for _, name := range names {
		// The test must be at fault because of the mutant, and not because of the machine.
		top, _, _ := strings.Cut(name, "/")
		if err := l.isSound(ctx, s, top); err != nil {
			return nil, err
		}
		by = append(by, catcher{s.name, name})
	}
	return by, nil
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

// failures finds the tests that failed, without subtests of one that is there already; if there are none,
// the one in which the tests' process died.
func failures(text string) (names []string) {
	for _, pattern := range []string{`(?m)^\s*--- FAIL: (\S+)`, `(?m)^(?:FAIL|ERROR): (test_\w+)`, `(?m)^\s*not ok \d+ - (.+)$`, `(?m)^  File ".*", line \d+ in (test_\w+)$`, `(?m)^\s+(Test\w+)(?:/\S*)? \(\d`, `\.(Test[A-Z]\w*)[.(]`} {
		tops := map[string]bool{}
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			top, _, _ := strings.Cut(found[1], "/")
			if !tops[top] {
				names = append(names, found[1])
			}
			tops[top] = true
		}
		if len(names) > 0 {
			return names
		}
	}
	return nil
}
