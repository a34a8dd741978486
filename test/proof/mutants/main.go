// Command mutants plants faults in pawl's own code, each alone, and shows which test notices it.
//
//	go run ./test/proof/mutants              all of them
//	go run ./test/proof/mutants term margin  those whose names contain one of the words
//	go run ./test/proof/mutants -list        what there is
//	go run ./test/proof/mutants -sample 5    five of them, others each day; -day says of which
//	go run ./test/proof/mutants -o FILE      the table also to its section of FILE
//
// The published table says which test caught a fault the last time. That test runs first, and only
// a fault that it lets pass is shown to the tests of whole packages.
//
// Nothing in the checkout is changed. The compiler is given other text for the files in question
// (go build -overlay), and the tests of a client in another language run in a copy of its folder. A
// fault that no test notices makes the command fail; so does one whose place in the sources is no
// longer found.
package main

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pawl-locks/pawl/test/proof/internal/pages"
)

func main() {
	sampled := flag.Int("sample", 0, "run so many of them, those of the day, which change every day")
	day := flag.String("day", time.Now().UTC().Format(time.DateOnly), "of the sample")
	list := flag.Bool("list", false, "list the mutants and run nothing")
	out := flag.String("o", "", "write the table to its section of this file too")
	timeout := flag.Duration("timeout", 5*time.Minute, "for the tests of one package")
	flag.Parse()
	root, err := projectRoot()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	chosen, err := choose(flag.Args(), *out != "")
	if *sampled > 0 && *out != "" {
		err = errors.New("-o writes the whole table: leave out -sample")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	if *sampled > 0 {
		chosen = sample(chosen, *sampled, *day)
		fmt.Printf("again with: go run ./test/proof/mutants -sample %d -day %s\n\n", *sampled, *day)
	}
	if *list {
		for _, m := range chosen {
			fmt.Printf("%s (%s): %s\n", m.name, m.rule, strings.Join(m.catch, " "))
		}
		return
	}
	caught, err := published(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	lab := &lab{root: root, timeout: *timeout, caught: caught, sound: map[string]error{}}
	failed := false
	table := "| fault | rule | caught by |\n|---|---|---|\n"
	fmt.Print(table)
	findings := lab.start(chosen, runtime.GOMAXPROCS(0))
	for i, m := range chosen {
		found := <-findings[i]
		by := found.by
		if found.err != nil {
			failed, by = true, "**"+found.err.Error()+"**"
		}
		row := fmt.Sprintf("| %s | %s | %s |\n", m.name, m.rule, by)
		fmt.Print(row)
		table += row
	}
	if *out != "" {
		if err := publish(*out, table); err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// published reads from the table of the project's page which test caught a fault the last time.
func published(root string) (map[string]catcher, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "results", "reliability.md"))
	if err != nil {
		return nil, err
	}
	caught := map[string]catcher{}
	for _, row := range regexp.MustCompile("(?m)^\\| (.+) \\| \\S+ \\| `(.+)`: `(Test[^`/]*).*` \\|$").FindAllStringSubmatch(string(text), -1) {
		caught[row[1]] = catcher{pkg: "./" + row[2], test: row[3]}
	}
	return caught, nil
}

// publish puts the table into its section of a page.
func publish(file, table string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	page, err := pages.Replace(string(text), "mutants", table)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(page), 0o644)
}

// choose returns the mutants whose names contain one of the words, or all. A word
// that no name contains is a mistake, and so is a page with a part of the table.
func choose(words []string, publish bool) ([]mutant, error) {
	if len(words) == 0 {
		return mutants, nil
	}
	if publish {
		return nil, errors.New("-o writes the whole table: leave out the words")
	}
	for _, w := range words {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return strings.Contains(m.name, w) }) {
			return nil, fmt.Errorf("no fault is called %q; -list names them", w)
		}
	}
	return slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(m.name, w) })
	}), nil
}

// sample returns n of all, chosen by the day.
func sample(all []mutant, n int, day string) []mutant {
	h := fnv.New64a()
	_, _ = h.Write([]byte(day))
	r := rand.New(rand.NewPCG(h.Sum64(), 0))
	all = slices.Clone(all)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

// projectRoot is the folder of the workspace that all modules are in.
func projectRoot() (string, error) {
	work, err := exec.Command("go", "env", "GOWORK").Output()
	if file := strings.TrimSpace(string(work)); err != nil || filepath.IsAbs(file) {
		return filepath.Dir(file), err
	}
	return "", errors.New("run it within the project's workspace (go.work)")
}
