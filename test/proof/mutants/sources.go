package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A declaration is a part of a source file: a function, a method, a type, a variable or a constant; or
// the whole of a file in another language.
type declaration struct {
	file       string // relative to the root
	name       string
	start, end int // offsets
}

// sources are the production files of the project, and what they declare.
type sources struct {
	text  map[string]string
	named map[string][]declaration
	all   []declaration
}

const (
	inPython = "clients/python"
	inNode   = "clients/node"
)

// clients are the folders of the project's code in other languages, and how its files end.
var clients = map[string]string{inPython: ".py", inNode: ".js"}

// readSources parses every Go file below root that is not a test, and reads the clients' files.
func readSources(root string) (*sources, error) {
	s := &sources{text: map[string]string{}, named: map[string][]declaration{}}
	return s, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "tests" || name == "mutants") {
				return fs.SkipDir
			}
			return nil
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		switch {
		case strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go"):
			return s.parse(path, file)
		case clientOf(file) != "":
			text, err := os.ReadFile(path)
			s.add(declaration{file, clientOf(file), 0, len(text)}, string(text))
			return err
		}
		return nil
	})
}

// clientOf returns the client to which a file belongs, or "".
func clientOf(file string) string {
	for folder, ending := range clients {
		if strings.HasPrefix(file, folder+"/") && strings.HasSuffix(file, ending) {
			return folder
		}
	}
	return ""
}

// add enters a declaration.
func (s *sources) add(d declaration, text string) {
	s.text[d.file] = text
	s.named[d.name] = append(s.named[d.name], d)
	s.all = append(s.all, d)
}

// parse enters the declarations of a Go file.
func (s *sources) parse(path, file string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return err
	}
	add := func(name string, from, to token.Pos) {
		s.add(declaration{file, name, set.Position(from).Offset, set.Position(to).Offset}, string(text))
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(receiver(d)+d.Name.Name, d.Pos(), d.End())
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				from, to := spec.Pos(), spec.End()
				if !d.Lparen.IsValid() {
					from = d.Pos()
				}
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name.Name, from, to)
				case *ast.ValueSpec:
					add(spec.Names[0].Name, from, to)
				}
			}
		}
	}
	return nil
}

// receiver returns "Type." for a method, and "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch u := t.(type) {
		case *ast.StarExpr:
			t = u.X
		case *ast.IndexExpr:
			t = u.X
		case *ast.IndexListExpr:
			t = u.X
		case *ast.Ident:
			return u.Name + "."
		default:
			return ""
		}
	}
}

// A place is where an edit's old lines stand.
type place struct {
	declaration
	from, to int // offsets of whole lines, in the file
}

// find returns the one place of an edit. How far its lines are indented does not count.
func (s *sources) find(e edit) (place, error) {
	var found []place
	for _, d := range s.named[e.in] {
		found = append(found, s.within(d, e.side('-'))...)
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return place{}, fmt.Errorf("in %s: %d places (%s); add lines around it", e.in, len(found), strings.Join(where(found), ", "))
	}
	for _, d := range s.all {
		found = append(found, s.within(d, e.side('-'))...)
	}
	if len(found) > 0 {
		return place{}, fmt.Errorf("in %s: not there, but in %s: was it renamed?", e.in, strings.Join(where(found), ", "))
	}
	if len(s.named[e.in]) == 0 {
		return place{}, fmt.Errorf("in %s: nothing has that name, and the lines stand nowhere: %q", e.in, e.side('-'))
	}
	return place{}, fmt.Errorf("in %s: the lines do not stand there: %q", e.in, e.side('-'))
}

func where(places []place) (names []string) {
	for _, p := range places {
		names = append(names, p.name+" of "+p.file)
	}
	return names
}

// within returns the places in a declaration where the lines stand one after the other.
func (s *sources) within(d declaration, lines []string) (found []place) {
	text := s.text[d.file]
	from := strings.LastIndexByte(text[:d.start], '\n') + 1 // the first line whole
	to := len(text)
	if n := strings.IndexByte(text[d.end:], '\n'); n >= 0 {
		to = d.end + n + 1
	}
	have := strings.SplitAfter(text[from:to], "\n")
	for i := range have {
		if len(lines) == 0 || i+len(lines) > len(have) {
			break
		}
		if slices.EqualFunc(have[i:i+len(lines)], lines, func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }) {
			found = append(found, place{d, from, from + len(strings.Join(have[i:i+len(lines)], ""))})
		}
		from += len(have[i])
	}
	return found
}
