package modules

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const pawl = "github.com/pawl-locks/pawl"

// The page's table is what a program requires, and gets compiled in, once it imports pawl/lock and nothing else. All
// else in its graph is there because one of these modules requires it, and none of it because pawl does.
func TestAnImportOfLockAddsToAModuleGraphWhatThePageLists(t *testing.T) {
	if !selected("nothing") {
		t.Skip("needs the module proxy, as the program with nothing beside pawl (-modules nothing)")
	}
	p := program{t, t.TempDir()}
	main := "package main\n\nimport _ \"" + pawl + "/lock\"\n\nfunc main() {}\n"
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "main.go"), []byte(main), 0o600))
	p.init()
	p.run("go", "mod", "tidy")

	listed, more := page(t)
	required := p.modules("list", "-m", "-f", "{{with .Version}}{{$.Path}} {{.}}{{end}}", "all")
	compiled := p.modules("list", "-deps", "-f", "{{with .Module}}{{with .Version}}{{$.Module.Path}} {{.}}{{end}}{{end}}", ".")
	assert.Equal(t, listed, compiled, "docs/reference/versions.md has what is compiled in")
	assert.Len(t, required, len(listed)+more, "docs/reference/versions.md says how many more are in the graph")
	for _, m := range required {
		assert.NotContains(t, m, "testify")
	}
	for edge := range strings.Lines(p.run("go", "mod", "graph")) {
		from, to, _ := strings.Cut(strings.TrimSpace(edge), " ")
		if path, _, _ := strings.Cut(to, "@"); strings.HasPrefix(from, pawl+"@") && path != "go" {
			assert.Contains(t, listed, strings.Replace(to, "@", " ", 1), "pawl itself requires it")
		}
	}
}

// modules runs go and returns the modules that it prints, without pawl.
func (p program) modules(args ...string) []string {
	p.t.Helper()
	all := strings.Split(strings.TrimSpace(p.run("go", args...)), "\n")
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(m string) bool { return m == "" || strings.HasPrefix(m, pawl+" ") })
}

// page reads docs/reference/versions.md: the modules of its table, and how many more it says are in the graph.
func page(t *testing.T) (listed []string, more int) {
	text, err := os.ReadFile("../../../docs/reference/versions.md")
	require.NoError(t, err)
	_, after, ok := strings.Cut(string(text), "| an import of `pawl/lock` adds |")
	require.True(t, ok)
	for _, row := range regexp.MustCompile("(?m)^ *\\| `([^`]+)` \\| (v[^ ]+) \\|").FindAllStringSubmatch(after, -1) {
		listed = append(listed, row[1]+" "+row[2])
	}
	number := regexp.MustCompile(`(\d+) more modules`).FindStringSubmatch(after)
	require.NotNil(t, number)
	more, err = strconv.Atoi(number[1])
	require.NoError(t, err)
	slices.Sort(listed)
	return listed, more
}
