// Command hops counts the functions and files of the library that each part of a lock's life
// enters, and how often it locks a mutex: an uncontended pair of Acquire and Release, with and without
// an observer, a contended one, a renewal, and the loss of a session. It builds itself with coverage
// counters, clears them before each part, and runs on the in-memory etcd. Whatever runs in the background
// during a part is counted with it.
//
// "go run ./test/proof/hops" prints the table; with -v it lists the functions of each part, and the
// mutexes that each package locks.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

const (
	module = "github.com/pawl-locks/pawl"
	output = "PAWL_HOPS" // where the instrumented copy writes its counters
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("hops: ")
	verbose := flag.Bool("v", false, "list the functions of each part")
	flag.Parse()
	if dir := os.Getenv(output); dir != "" {
		check(live(dir))
		return
	}
	dir, err := os.MkdirTemp("", "hops")
	check(err)
	err = count(dir, *verbose)
	os.RemoveAll(dir)
	check(err)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// count builds the instrumented copy, runs it, and prints what it entered.
func count(dir string, verbose bool) error {
	binary := filepath.Join(dir, "hops")
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg="+module+"/...", "-o", binary, module+"/test/proof/hops")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	list, err := exec.Command("go", "list", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return err
	}
	root := strings.TrimSpace(string(list))
	if err := build.Run(); err != nil {
		return err
	}
	run := exec.Command(binary)
	run.Env = append(os.Environ(), output+"="+dir, "GOCOVERDIR="+dir)
	run.Stderr = os.Stderr
	if err := run.Run(); err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "part\tfunctions\tof the engine\tmutexes\tof the engine\tfiles\tpackages")
	for _, part := range parts {
		functions, err := entered(filepath.Join(dir, part.name))
		if err != nil {
			return err
		}
		locks, err := locked(root, filepath.Join(dir, part.name))
		if err != nil {
			return err
		}
		mutexes, ofEngine, ofFunctions := 0, 0, 0
		for in, n := range locks {
			mutexes += n
			if isEngine(in) {
				ofEngine += n
			}
			if verbose {
				fmt.Printf("%s %s: %d mutexes\n", part.name, in, n)
			}
		}
		files, packages := map[string]bool{}, map[string]bool{}
		for _, f := range functions {
			file, _, _ := strings.Cut(f, ":")
			files[file], packages[filepath.Dir(file)] = true, true
			if isEngine(filepath.Dir(file)) {
				ofFunctions++
			}
			if verbose {
				fmt.Println(part.name, f)
			}
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", part.name, len(functions), ofFunctions, mutexes, ofEngine, len(files), len(packages))
	}
	return nil
}

// entered is each function of the library that the counters in dir show, as file: name.
func entered(dir string) ([]string, error) {
	out, err := exec.Command("go", "tool", "covdata", "func", "-i="+dir).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	var functions []string
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // file:line: name percent
		if len(fields) != 3 || fields[2] == "0.0%" || !strings.HasPrefix(fields[0], module+"/") {
			continue
		}
		file, _, _ := strings.Cut(strings.TrimPrefix(fields[0], module+"/"), ":")
		if !isLibrary(file) {
			continue
		}
		functions = append(functions, file+": "+fields[1])
	}
	return functions, nil
}

// isLibrary reports whether a file is of what users import.
func isLibrary(file string) bool {
	return !strings.HasPrefix(file, "test/") && !strings.HasPrefix(file, "internal/testkit/")
}

// isEngine reports whether the package in dir keeps the life of an acquisition.
func isEngine(dir string) bool {
	return strings.HasPrefix(dir, "internal/queue") || dir == "internal/session"
}

// A world is two clients of one cluster, each with a session.
type world struct {
	etcd        *etcdfake.Cluster
	mine, other *pawl.Session
	renewed     chan struct{} // a renewal of mine was confirmed
}

// A part is a piece of a lock's life. What it returns is counted, and what it did before is not.
type part struct {
	name    string
	prepare func(ctx context.Context, w *world) (run func() error, err error)
}

var parts = []part{
	{"uncontended", func(ctx context.Context, w *world) (func() error, error) {
		return func() error { return pair(ctx, w.mine) }, pair(ctx, w.mine)
	}},
	{"unobserved", func(ctx context.Context, w *world) (func() error, error) {
		return func() error { return pair(ctx, w.other) }, pair(ctx, w.other)
	}},
	{"contended", func(ctx context.Context, w *world) (func() error, error) {
		h, err := mutex(w.other).Acquire(ctx)
		return func() error {
			done := make(chan error, 1)
			go func() { done <- pair(ctx, w.mine) }()
			for len(w.etcd.Keys("name/")) < 2 {
				time.Sleep(time.Millisecond)
			}
			return errors.Join(h.Release(ctx), <-done)
		}, err
	}},
	{"renewal", func(ctx context.Context, w *world) (func() error, error) {
		h, err := mutex(w.mine).Acquire(ctx)
		<-w.renewed // by now the key is watched
		return func() error {
			<-w.renewed
			return h.Err()
		}, err
	}},
	{"loss", func(ctx context.Context, w *world) (func() error, error) {
		h, err := mutex(w.mine).Acquire(ctx)
		<-w.renewed
		return func() error {
			for _, l := range w.etcd.Leases() {
				w.etcd.Revoke(l.ID)
			}
			<-h.Done()
			<-w.mine.Done()
			return nil
		}, err
	}},
}

func mutex(s pawl.Sessions) *lock.Mutex { return lock.New(s, "name", lock.Options{}) }

func pair(ctx context.Context, s *pawl.Session) error {
	h, err := mutex(s).Acquire(ctx)
	if err != nil {
		return err
	}
	return h.Release(ctx)
}

// live goes through the parts, each in a separate world, and writes what each entered into dir.
func live(dir string) error {
	for _, p := range parts {
		if err := p.live(filepath.Join(dir, p.name)); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (p part) live(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	w := &world{etcd: etcdfake.New(etcdfake.Options{}), renewed: make(chan struct{}, 1000)}
	defer w.etcd.Close()
	for _, s := range []**pawl.Session{&w.other, &w.mine} {
		cfg := pawl.Config{
			Endpoints: w.etcd.Endpoints(), DialOptions: []grpc.DialOption{w.etcd.DialOption()},
			Session: lease.Options{TTL: 3 * time.Second},
		}
		if s == &w.mine {
			cfg.Observer = observe.Func(func(_ context.Context, ev observe.Event) {
				if _, ok := ev.(observe.SessionRenewed); ok {
					w.renewed <- struct{}{}
				}
			})
		}
		c, err := pawl.Dial(ctx, cfg)
		if err != nil {
			return err
		}
		defer c.Close()
		if *s, err = c.Session(ctx); err != nil {
			return err
		}
	}
	run, err := p.prepare(ctx, w)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := run(); err != nil {
		return err
	}
	return errors.Join(coverage.WriteCountersDir(dir), coverage.WriteMetaDir(dir))
}
