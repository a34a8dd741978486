//go:build linux

// Command compare puts pawl and etcd's client/v3/concurrency side by side on the same cluster,
// under the same faults, and measures both.
//
//	go run ./test/peers/compare                    prints the table
//	go run ./test/peers/compare -o docs/results/comparison.md
//	go run ./test/peers/compare sets nested        the rows whose names contain one of the words
//
// Every figure is measured in that run, for both alike, and nothing is remembered from another. The
// command fails if pawl does not do as it promises. It takes about five minutes, and Linux.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/test/etcdtest"
)

// row is one comparison: what happens, and how each fares.
type row struct {
	name string
	what string // is measured
	want string // how pawl's figure begins, as it promises; "" if it promises nothing
	run  func(b *bench, k kit) string
}

func main() {
	if role := os.Getenv(workerEnv); role != "" {
		os.Exit(work(role))
	}
	out := flag.String("o", "", "write the page to this file too")
	flag.Parse()
	if err := compare(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(out string, words []string) (err error) {
	chosen, err := choose(words, out != "")
	if err != nil {
		return err
	}
	t := &scope{}
	defer t.end()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v\n%s", r, debug.Stack())
		}
	}()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() { // ends with the process; members end with it too
		<-interrupted
		os.Exit(1)
	}()
	c := etcdtest.StartCluster(t, 3)
	binaries := map[string]string{}
	defer func() {
		for _, path := range binaries {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}()
	failed := false
	var broken []error
	page := fmt.Sprintf(header, time.Now().UTC().Format("2006-01-02"), version("go.etcd.io/etcd/client/v3"))
	fmt.Print(page)
	for _, r := range chosen {
		figures := map[string]string{}
		for _, k := range []kit{ours{}, theirs{}} {
			var ok bool
			figures[k.name()], ok = measure(c, r, k, binaries)
			failed = failed || !ok
			c.Heal(t)
		}
		if mine := figures[ours{}.name()]; !strings.HasPrefix(mine, r.want) {
			broken = append(broken, fmt.Errorf("%s: pawl promises %q, measured was %q", r.name, r.want, mine))
		}
		line := fmt.Sprintf("| %s | %s | %s | %s |\n", r.name, r.what, figures[ours{}.name()], figures[theirs{}.name()])
		fmt.Print(line)
		page += line
	}
	switch {
	case failed:
		return errors.New("not everything could be measured; nothing is written")
	case out == "":
		return errors.Join(broken...)
	}
	return errors.Join(append(broken, os.WriteFile(out, []byte(page), 0o644))...)
}

// choose returns the rows whose names contain one of the words, or all. A word
// that no name contains is a mistake, and so is a page with a part of the table.
func choose(words []string, publish bool) ([]row, error) {
	if len(words) == 0 {
		return rows, nil
	}
	if publish {
		return nil, errors.New("-o writes the whole table: leave out the words")
	}
	for _, w := range words {
		if !slices.ContainsFunc(rows, func(r row) bool { return strings.Contains(r.name, w) }) {
			return nil, fmt.Errorf("no row is called like %q", w)
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(r.name, w) })
	}), nil
}

// measure runs one row for one of the two, with new clients. Without ok, figure says what failed.
func measure(c *etcdtest.Cluster, r row, k kit, binaries map[string]string) (figure string, ok bool) {
	t := &scope{}
	defer t.end()
	defer func() {
		if p := recover(); p != nil {
			figure, ok = fmt.Sprintf("failed: %v", p), false
		}
	}()
	return r.run(&bench{t, c, binaries}, k), true
}

const header = `# pawl and clientv3/concurrency, side by side

Written by ` + "`go run ./test/peers/compare`" + ` on %s, with three real etcd members on
one machine, and client/v3 %s. Each figure was measured in that run, with the
same faults for both. In the row about commands, the right column is etcdctl.

| event | measured | pawl | clientv3/concurrency |
|---|---|---|---|
`

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return "of this module"
}
