// Command mutants plants faults in pawl's own code, each alone, and shows which test notices it.
//
//	go run ./test/proof/mutants                  all of them
//	go run ./test/proof/mutants term margin      those whose names contain one of the words
//	go run ./test/proof/mutants -files a.go,b.go those in these files; -changed REV: in what changed since REV
//	go run ./test/proof/mutants -sample 5        five of those, others each day; -day says of which
//	go run ./test/proof/mutants -list            what there is
//	go run ./test/proof/mutants -rules           for each rule where it is broken, and its tests; runs nothing
//	go run ./test/proof/mutants -all             every test that notices, not only the first
//	go run ./test/proof/mutants -w               writes which test caught each into the folder faults
//
// The folder faults says what the faults are, and which test caught each the last time. That test runs
// first, and only a fault that it lets pass is shown to the tests of whole packages.
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
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	var o options
	flag.IntVar(&o.sample, "sample", 0, "run at most so many of them, those of the day, which change every day")
	flag.StringVar(&o.day, "day", time.Now().UTC().Format(time.DateOnly), "of the sample")
	flag.StringVar(&o.files, "files", "", "run those in these files, separated by commas or spaces")
	flag.StringVar(&o.changed, "changed", "", "run those in the files that have changed since this revision")
	list := flag.Bool("list", false, "list the faults and run nothing")
	table := flag.Bool("rules", false, "print for each rule the functions in which it is broken, and its tests")
	write := flag.Bool("w", false, "write which test caught each into the folder faults")
	every := flag.Bool("all", false, "run all tests of the packages, and show every one that fails")
	timeout := flag.Duration("timeout", 5*time.Minute, "for the tests of one package")
	flag.Parse()
	o.words = flag.Args()
	if *table {
		if err := printRules(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(o, *list, *write, *every, *timeout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run plants the chosen faults. Its error says how many were not caught.
func run(o options, list, write, every bool, timeout time.Duration) error {
	root, err := projectRoot()
	if err != nil {
		return err
	}
	src, err := readSources(root)
	if err != nil {
		return err
	}
	all, err := faults()
	if err != nil {
		return err
	}
	chosen, err := o.choose(root, src, all)
	if err != nil {
		return err
	}
	if o.sample > 0 {
		fmt.Printf("%d of %d; again with: go run ./test/proof/mutants -sample %d -day %s\n\n", len(chosen), len(all), o.sample, o.day)
	}
	if list {
		for _, f := range chosen {
			fmt.Printf("%s (%s): %s\n", f.name, f.rule, strings.Join(f.tests, " "))
		}
		return nil
	}
	lab := &lab{root: root, timeout: timeout, sources: src, every: every, sound: map[string]error{}}
	fmt.Print("| fault | rule | caught by |\n|---|---|---|\n")
	findings := lab.start(chosen, runtime.GOMAXPROCS(0))
	caught, failed := map[string]string{}, 0
	for i, f := range chosen {
		found := <-findings[i]
		by := found.String()
		if found.err != nil {
			failed, by = failed+1, "**"+found.err.Error()+"**"
		} else {
			caught[f.name] = found.first()
		}
		fmt.Printf("| %s | %s | %s |\n", f.name, f.rule, by)
	}
	if write {
		if err := record(filepath.Join(root, "test", "proof", "mutants", "faults"), caught); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d faults were not caught", failed, len(chosen))
	}
	return nil
}

// record writes which test caught each fault into the files of a folder.
func record(dir string, caught map[string]string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(recorded(string(text), caught)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// recorded returns the text of a file of faults with the tests that caught them.
func recorded(text string, caught map[string]string) string {
	var out strings.Builder
	by := ""
	for l := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
		switch key {
		case "fault":
			by = caught[value]
		case "by":
			if by != "" {
				continue
			}
		case "in":
			if by != "" {
				out.WriteString("by " + by + "\n")
			}
			by = ""
		}
		out.WriteString(l)
	}
	return out.String()
}

// projectRoot is the folder of the workspace that all modules are in.
func projectRoot() (string, error) {
	work, err := exec.Command("go", "env", "GOWORK").Output()
	if file := strings.TrimSpace(string(work)); err != nil || filepath.IsAbs(file) {
		return filepath.Dir(file), err
	}
	return "", errors.New("run it within the project's workspace (go.work)")
}
