package main

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed faults/*.txt
var written embed.FS

// A fault is one mistake that somebody could make, and that the tests must notice.
type fault struct {
	name  string   // what is done wrong
	rule  string   // the rule that it breaks
	tests []string // the folders whose tests are run, one after the other, until one fails
	by    string   // the test that caught it the last time, or ""
	edits []edit
}

// An edit replaces lines within a declaration, wherever in the project that declaration stands.
type edit struct {
	in      string   // "function", "Type.method", a package-level name, or the folder of a client
	lines   []line   // in order; the place is where the old ones stand, one after the other
	imports []string // what the changed file imports in addition
}

// A line is one of the old text, of the new one, or of both.
type line struct {
	op   byte // '-' old, '+' new, ' ' both
	text string
}

// side returns the lines of the old text ('-') or of the new one ('+').
func (e edit) side(op byte) (lines []string) {
	for _, l := range e.lines {
		if l.op == op || l.op == ' ' {
			lines = append(lines, l.text)
		}
	}
	return lines
}

// faults reads all that is written in the folder faults.
func faults() ([]fault, error) {
	var all []fault
	names := map[string]bool{}
	err := fs.WalkDir(written, "faults", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := written.ReadFile(file)
		if err != nil {
			return err
		}
		some, err := parse(path.Base(file), string(text))
		for _, f := range some {
			if names[f.name] {
				return fmt.Errorf("%s: two faults are called %q", file, f.name)
			}
			names[f.name] = true
		}
		all = append(all, some...)
		return err
	})
	return all, err
}

// parse reads one file of faults. Its form is described in faults/README.md.
func parse(file, text string) (all []fault, err error) {
	var f *fault
	var e *edit
	for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		wrong := func(what string) error { return fmt.Errorf("%s:%d: %s: %q", file, i+1, what, l) }
		key, value, _ := strings.Cut(l, " ")
		switch {
		case l == "" || l[0] == '#':
			continue
		case key == "fault":
			all = append(all, fault{name: value})
			f, e = &all[len(all)-1], nil
		case f == nil:
			return nil, wrong("no fault begins here")
		case strings.IndexByte("-+ ", l[0]) >= 0:
			if e == nil {
				return nil, wrong("in which declaration?")
			}
			e.lines = append(e.lines, line{l[0], l[1:]})
		case key == "rule":
			f.rule = value
		case key == "tests":
			f.tests = strings.Fields(value)
		case key == "by":
			f.by = value
		case key == "in":
			f.edits = append(f.edits, edit{in: value})
			e = &f.edits[len(f.edits)-1]
		case key == "imports" && e != nil:
			e.imports = append(e.imports, value)
		default:
			return nil, wrong("not understood")
		}
	}
	for _, f := range all {
		if f.name == "" || f.rule == "" || len(f.tests) == 0 || len(f.edits) == 0 {
			return nil, fmt.Errorf("%s: the fault %q lacks a name, rule, tests or in", file, f.name)
		}
	}
	return all, nil
}
