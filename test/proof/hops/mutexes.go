package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A block is a piece of code that runs as a whole, and how often it did.
type block struct {
	from, to place
	count    int
}

// A place is a line and a column.
type place struct{ line, column int }

func (p place) before(q place) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

// locked is how often each package of the library locked a mutex, as the counters in dir show.
func locked(root, dir string) (map[string]int, error) {
	files, err := blocks(dir)
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for file, blocks := range files {
		calls, err := lockCalls(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		for _, call := range calls {
			for _, b := range blocks {
				if !call.before(b.from) && call.before(b.to) {
					all[filepath.Dir(file)] += b.count
					break
				}
			}
		}
	}
	return all, nil
}

// blocks are the blocks of each file of the library that the counters in dir show to have run.
func blocks(dir string) (map[string][]block, error) {
	text := filepath.Join(dir, "profile")
	out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+text).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	profile, err := os.ReadFile(text)
	if err != nil {
		return nil, err
	}
	all := map[string][]block{}
	for lines := bufio.NewScanner(bytes.NewReader(profile)); lines.Scan(); {
		file, counted, ok := strings.Cut(strings.TrimPrefix(lines.Text(), module+"/"), ":")
		if !ok || !isLibrary(file) {
			continue
		}
		var b block
		var statements int
		if _, err := fmt.Sscanf(counted, "%d.%d,%d.%d %d %d", &b.from.line, &b.from.column, &b.to.line, &b.to.column, &statements, &b.count); err != nil {
			continue // the line that names the mode
		}
		if b.count > 0 {
			all[file] = append(all[file], b)
		}
	}
	return all, nil
}

// lockCalls are the places in a file at which a mutex is locked.
func lockCalls(file string) (calls []place, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) > 0 {
			return true
		}
		if name, ok := call.Fun.(*ast.SelectorExpr); ok && (name.Sel.Name == "Lock" || name.Sel.Name == "RLock") {
			at := files.Position(call.Pos())
			calls = append(calls, place{at.Line, at.Column})
		}
		return true
	})
	return calls, nil
}
