package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A rule is one of docs/explanation/safety.md.
type rule struct {
	name  string
	says  string   // its first sentence
	where []string // the functions in which faults break it
	tests []string // those that have it in a line "// rule: "
}

var (
	stated = regexp.MustCompile(`(?m)^- \*\*([A-EG-WY-Z][A-Z]*\d+)\*\* ((?:.+\n)(?:  .+\n)*)`) // F are facts, X what no client can rule out
	tagged = regexp.MustCompile(`(?m)^// rule: (.*)\n(?://.*\n)*func (\w+)`)
)

// rules reads the project's rules, in the order in which the page states them.
func rules(root string, src *sources, all []fault) ([]*rule, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "explanation", "safety.md"))
	if err != nil {
		return nil, err
	}
	var list []*rule
	named := map[string]*rule{}
	for _, m := range stated.FindAllStringSubmatch(string(page), -1) {
		says, _, _ := strings.Cut(strings.Join(strings.Fields(m[2]), " "), ". ")
		list = append(list, &rule{name: m[1], says: strings.TrimSuffix(says, ".")})
		named[m[1]] = list[len(list)-1]
	}
	for _, f := range all {
		if r := named[f.rule]; r != nil {
			for _, e := range f.edits {
				p, err := src.find(e)
				if err != nil {
					return nil, err
				}
				r.where = append(r.where, filepath.ToSlash(filepath.Dir(p.file))+": "+p.name)
			}
		}
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		for _, m := range tagged.FindAllStringSubmatch(string(text), -1) {
			for _, name := range strings.Split(m[1], ", ") {
				if named[name] == nil {
					return fmt.Errorf("%s: %s is for %s, which docs/explanation/safety.md does not state", path, m[2], name)
				}
				named[name].tests = append(named[name].tests, filepath.ToSlash(dir)+": "+m[2])
			}
		}
		return err
	})
	for _, r := range list {
		slices.Sort(r.where)
		r.where = slices.Compact(r.where)
		slices.Sort(r.tests)
	}
	return list, err
}

// printRules prints the table of the rules.
func printRules(to io.Writer) error {
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
	list, err := rules(root, src, all)
	for _, r := range list {
		fmt.Fprintf(to, "%s: %s\n    %s\n    %s\n", r.name, r.says, strings.Join(r.where, ", "), strings.Join(r.tests, "\n    "))
	}
	return err
}
