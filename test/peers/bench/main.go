//go:build linux

// Command bench puts pawl beside etcd's client/v3/concurrency, and beside the least that such work
// can cost, on one real etcd server, and measures all three in turns.
//
//	go run ./test/peers/bench                       prints the page
//	go run ./test/peers/bench -o docs/results         writes docs/results/performance.md and docs/results/performance/*.svg
//	go run ./test/peers/bench -short                a quick look
//	go run ./test/peers/bench -targets              what the targets compare, in about 12 minutes
//	go run ./test/peers/bench -growth 10            what may grow with its size or with the past
//	go run ./test/peers/bench -only chain-100       the scenarios whose names contain the word
//
// Each turn has a separate client process. The server is another process, or three in a
// few scenarios. Round trips as on networks are a proxy's, in the process that gives the orders. A round
// is one turn, or a few, of every scenario for everybody, and the order changes with the round. Five
// rounds take about 47 minutes, and Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// roleEnv names the environment variable that says in which role the program runs.
const (
	roleEnv     = "PAWL_BENCH_ROLE"
	roleServer  = "server"
	roleWorker  = "worker"
	roleWaiters = "waiters" // of a worker
)

func main() {
	if err := play(bench); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// play plays the program's role. Without one it does main.
func play(main func() error) error {
	switch os.Getenv(roleEnv) {
	case roleServer:
		return serve(os.Args[1:])
	case roleWorker:
		return work()
	case roleWaiters:
		return waitApart()
	}
	return main()
}

// flags are how much is to be measured.
type flags struct {
	rounds  int
	short   bool
	targets bool          // only what the targets compare
	growth  int           // play what grows, at sizes up to so many times the least; 0 for everything else
	span    time.Duration // of one turn of each scenario; if 0, as long and as many as it has
	only    string
	data    string
	out     string
	profile string
}

func bench() error {
	var f flags
	flag.IntVar(&f.rounds, "rounds", 5, "how many rounds")
	flag.BoolVar(&f.short, "short", false, "leave out the largest sizes; one round unless -rounds says otherwise")
	flag.BoolVar(&f.targets, "targets", false, "only what the targets compare: five rounds take about 12 minutes")
	flag.IntVar(&f.growth, "growth", 0, "play only what may grow, at sizes up to so many times the least: 1, 10, 100 or 1000")
	flag.StringVar(&f.only, "only", "", "only scenarios whose names contain this")
	flag.StringVar(&f.data, "data", "", "the folder under which the server's data lie (default: the system's for temporary files)")
	flag.StringVar(&f.out, "o", "", "the folder to write performance.md to, and the plots to its performance/")
	flag.StringVar(&f.profile, "profile", "", "a folder for the clients' profiles of CPU and allocations")
	flag.Parse()
	if f.out != "" && f.growth == 0 && (f.only != "" || f.short || f.targets) {
		return errors.New("-o writes whole pages, from which test/peers/scale computes: leave out -only, -short and -targets")
	}
	if f.growth > 0 {
		f.rounds, f.short = 1, true
	}
	if f.data == "" {
		f.data = os.TempDir()
	}
	given := false
	flag.Visit(func(fl *flag.Flag) { given = given || fl.Name == "rounds" })
	if f.short && !given {
		f.rounds = 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := measure(ctx, f)
	if err != nil {
		return err
	}
	switch {
	case f.growth > 0:
		return r.writeGrowth(f.out)
	case f.targets:
		fmt.Print(r.verdicts(slices.Concat(targets(), kept())))
		return nil
	case f.out == "":
		fmt.Print(r.page() + r.data())
		return nil
	}
	return r.write(f.out)
}

// servers is what distinguishes the clusters of a run.
type servers struct {
	members int
	tls     bool
}

// measure runs all rounds.
func measure(ctx context.Context, f flags) (*results, error) {
	every := scenarios(f.short)
	if f.growth > 0 {
		every = growthScenarios(growths(f.growth))
	}
	chosen := slices.DeleteFunc(every, func(s scenario) bool { return !strings.Contains(s.Name, f.only) })
	if f.targets {
		chosen = targeted(chosen)
	}
	for i := range chosen {
		if f.span > 0 {
			chosen[i].Span, chosen[i].turns = min(f.span, chosen[i].Span), 1
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-only %s: no scenario is called like that", f.only)
	}
	r := &results{flags: f, began: time.Now(), got: map[string]map[string][][]figures{}}
	r.filesystem = filesystem(f.data)
	var err error
	if r.sync, err = syncTime(f.data); err != nil {
		return nil, err
	}
	if needsDaemon(chosen) {
		dir, err := os.MkdirTemp("", "pawl-bench-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		if r.daemon, err = buildDaemon(ctx, dir); err != nil {
			return nil, err
		}
	}
	clusters := map[servers]*etcd{}
	defer func() {
		for _, e := range clusters {
			e.stop()
		}
	}()
	for round := range f.rounds {
		for _, s := range chosen {
			if s.rounds > 0 && round >= s.rounds {
				continue
			}
			of := servers{s.Members, s.TLS}
			e := clusters[of]
			if e == nil {
				if e, err = startEtcd(ctx, f.data, s.Members, s.TLS); err != nil {
					return nil, fmt.Errorf("start etcd: %w", err)
				}
				clusters[of] = e
				fmt.Fprintf(os.Stderr, "etcd: %s, profiles under /debug/pprof\n", e.url())
			}
			if err := r.round(ctx, e, round, s); err != nil {
				return nil, err
			}
		}
	}
	r.took = time.Since(r.began)
	return r, nil
}
