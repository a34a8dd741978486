package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// files are the changed texts of source files, by their names relative to the root.
type files map[string]string

// A change is an edit at its place.
type change struct {
	place
	edit
}

// plant returns the files that a fault changes, as they are with it.
func (s *sources) plant(f fault) (files, error) {
	var changes []change
	for _, e := range f.edits {
		p, err := s.find(e)
		if err != nil {
			return nil, err
		}
		changes = append(changes, s.narrow(p, e))
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(strings.Compare(a.file, b.file), b.from-a.from) // from a file's end to its start
	})
	texts, imports := files{}, map[string][]string{}
	for i, c := range changes {
		if i > 0 && changes[i-1].file == c.file && c.to > changes[i-1].from {
			return nil, fmt.Errorf("in %s: another edit of the fault changes the same lines", c.in)
		}
		text := cmp.Or(texts[c.file], s.text[c.file])
		texts[c.file] = text[:c.from] + c.replacement(s.text[c.file][c.from:c.to]) + text[c.to:]
		imports[c.file] = append(imports[c.file], c.imports...)
	}
	for file, text := range texts {
		if strings.HasSuffix(file, ".go") {
			var err error
			if texts[file], err = withImports(text, imports[file]); err != nil {
				return nil, fmt.Errorf("%s with the fault: %w", file, err)
			}
		}
	}
	return texts, nil
}

// narrow leaves out the lines around an edit that stay as they are.
func (s *sources) narrow(p place, e edit) change {
	lines := strings.SplitAfter(s.text[p.file][p.from:p.to], "\n")
	for len(e.lines) > 1 && e.lines[0].op == ' ' && e.lines[1].op != '+' {
		p.from += len(lines[0])
		lines, e.lines = lines[1:], e.lines[1:]
	}
	lines = lines[:len(e.side('-'))]
	for last := len(e.lines) - 1; len(lines) > 1 && e.lines[last].op == ' '; last-- {
		p.to -= len(lines[len(lines)-1])
		lines, e.lines = lines[:len(lines)-1], e.lines[:last]
	}
	return change{p, e}
}

// replacement returns the new lines, indented as the old ones are in the file.
func (e edit) replacement(old string) string {
	indent := func(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "\t "))] }
	have, want := indent(old), indent(e.side('-')[0])
	var text strings.Builder
	for _, l := range e.side('+') {
		if rest, ok := strings.CutPrefix(l, want); ok {
			l = have + rest
		}
		text.WriteString(l + "\n")
	}
	return text.String()
}

// withImports returns the text of a Go file with further imports, and without those that nothing uses.
func withImports(text string, more []string) (string, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	used := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok {
				used[x.Name] = true
			}
		}
		return true
	})
	name := func(file string) string { // what a path is called, by the convention of this project's imports
		base := path.Base(file)
		if strings.HasPrefix(base, "v") && strings.Trim(base[1:], "0123456789") == "" {
			base = path.Base(path.Dir(file))
		}
		return base
	}
	have := map[string]bool{}
	imports := slices.Clone(f.Imports)
	slices.Reverse(imports)
	for _, i := range imports {
		file, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return "", err
		}
		have[file] = true
		called := name(file)
		if i.Name != nil {
			called = i.Name.Name
		}
		if !used[called] && called != "_" && called != "." {
			from, to := set.Position(i.Pos()).Offset, set.Position(i.End()).Offset
			text = text[:from] + `_ ` + i.Path.Value + text[to:]
		}
	}
	for _, file := range more {
		if !have[file] {
			at := set.Position(f.Name.End()).Offset // before all that may have moved
			text = text[:at] + "; import " + strconv.Quote(file) + text[at:]
		}
	}
	return text, nil
}

// overlay writes the files to dir, with what puts them in place for the compiler.
func (f files) overlay(root, dir string) (file string, err error) {
	replace := map[string]string{}
	for name, text := range f {
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, name)] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}
