// Command scale says what one etcd cluster carries, and what several carry
// together, from the costs that test/peers/bench measured, and simulates a million
// holders on one to thirty-two clusters.
//
//	go run ./test/peers/scale                 prints the page
//	go run ./test/peers/scale -o docs/results   writes docs/results/scale.md
//
// It needs docs/results/performance/figures.json and docs/results/growth.json, and no server.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := scale(); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func scale() error {
	w := deployment{}
	figures := flag.String("figures", "docs/results/performance/figures.json", "what was measured")
	played := flag.String("growth", "docs/results/growth.json", "what grows")
	out := flag.String("o", "", "the folder to write scale.md to")
	flag.IntVar(&w.holders, "holders", 1_000_000, "locks held at a time")
	flag.IntVar(&w.processes, "processes", 10_000, "processes that hold them")
	flag.DurationVar(&w.hold, "hold", 10*time.Minute, "how long a lock is held, at the mean")
	flag.Float64Var(&w.contended, "contended", 0.1, "share of acquisitions that wait for another holder")
	flag.DurationVar(&w.ttl, "ttl", 60*time.Second, "of each session")
	flag.IntVar(&w.cores, "cores", 2, "of each cluster's leader")
	flag.DurationVar(&w.span, "span", 2*time.Minute, "how long is simulated")
	flag.Uint64Var(&w.seed, "seed", 1, "of the simulation's randomness")
	flag.Parse()
	if err := w.check(); err != nil {
		return err
	}
	c, err := readCosts(*figures)
	if err != nil {
		return err
	}
	g, err := readGrowths(*played)
	if err != nil {
		return err
	}
	page, err := page(c, g, w)
	if err != nil {
		return err
	}
	if *out == "" {
		fmt.Print(page)
		return nil
	}
	return os.WriteFile(filepath.Join(*out, "scale.md"), []byte(page), 0o644)
}
