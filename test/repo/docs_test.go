package repo_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// documents are all Markdown files, by their paths.
func documents(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	require.NoError(t, filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(p) != ".md" {
			return err
		}
		text, err := os.ReadFile(p)
		docs[filepath.ToSlash(p)] = string(text)
		return err
	}))
	require.NotEmpty(t, docs)
	return docs
}

var link = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors are the link targets in a document, as GitHub makes them from its headings.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(h[1]), "")
		all["#"+strings.ReplaceAll(strings.TrimSpace(kept), " ", "-")] = true
	}
	return all
}

func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	docs, found := documents(t), 0
	for doc, text := range docs {
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(l[1], "://") || strings.HasPrefix(l[1], "mailto:") {
				continue
			}
			to := doc
			if l[1] != "" {
				to = path.Join(path.Dir(doc), l[1])
				_, err := os.Stat(to)
				assert.NoError(t, err, "%s links to %s", doc, l[1])
			}
			if l[2] != "" && path.Ext(to) == ".md" {
				found++
				assert.True(t, anchors(docs[to])[l[2]], "%s links to %s%s, which has no such heading", doc, to, l[2])
			}
		}
	}
	assert.Greater(t, found, 10)
}

// elsewhere are documents that name files of other projects.
var elsewhere = map[string]bool{"docs/explanation/peers.md": true}

var file = regexp.MustCompile("`([\\w./-]+/[\\w.-]+\\.(?:go|md|txtar|sh|py|js))`")

func TestFilesNamedInDocumentsExist(t *testing.T) {
	found := 0
	for doc, text := range documents(t) {
		if elsewhere[doc] {
			continue
		}
		for _, f := range file.FindAllStringSubmatch(text, -1) {
			found++
			assert.FileExists(t, f[1], "%s names it", doc)
		}
	}
	assert.Greater(t, found, 20)
}

var test = regexp.MustCompile(`(?:([\w/]+): )?\b((?:Test|Fuzz|Benchmark)[A-Z]\w*)`)

// A test is named as "folder: TestName". The folder "pawl" is this one. Without a folder, the test may
// be in any.
func TestTestsNamedInDocumentsExist(t *testing.T) {
	dirs := testsByFolder(t)
	found := 0
	for doc, text := range documents(t) {
		for _, m := range test.FindAllStringSubmatch(text, -1) {
			dir, name := m[1], m[2]
			if dir == "pawl" {
				dir = "."
			}
			found++
			if dir != "" {
				assert.Contains(t, dirs[dir], name, "%s names it in %s", doc, dir)
				continue
			}
			var any bool
			for _, names := range dirs {
				any = any || names[name]
			}
			assert.True(t, any, "%s names %s", doc, name)
		}
	}
	assert.Greater(t, found, 60)
}

var function = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)

func testsByFolder(t *testing.T) map[string]map[string]bool {
	t.Helper()
	dirs := map[string]map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		text, err := os.ReadFile(p)
		dir := filepath.ToSlash(filepath.Dir(p))
		for _, f := range function.FindAllStringSubmatch(string(text), -1) {
			if dirs[dir] == nil {
				dirs[dir] = map[string]bool{}
			}
			dirs[dir][f[1]] = true
		}
		return err
	}))
	return dirs
}

var program = regexp.MustCompile("(?s)<!-- same as (\\S+) -->\n```go\n(.*?)```")

// A document's programs are the same as tested examples, except that the package and the function are
// named main.
func TestProgramsInDocumentsAreExamples(t *testing.T) {
	rename := regexp.MustCompile(`(?m)^func Example\w*\(\) \{$`)
	pkg := regexp.MustCompile(`(?m)^package \w+$`)
	found := 0
	for doc, text := range documents(t) {
		for _, p := range program.FindAllStringSubmatch(text, -1) {
			found++
			source, err := os.ReadFile(p[1])
			require.NoError(t, err, doc)
			want := rename.ReplaceAllString(pkg.ReplaceAllString(string(source), "package main"), "func main() {")
			assert.Equal(t, want, p[2], "%s prints %s", doc, p[1])
		}
	}
	assert.Positive(t, found)
}

var part = regexp.MustCompile("(?s)<!-- part of (\\S+) -->\n```go\n(.*?)```")

// A document's parts of programs are parts of tested examples.
func TestPartsOfProgramsInDocumentsStandInExamples(t *testing.T) {
	found := 0
	for doc, text := range documents(t) {
		for _, p := range part.FindAllStringSubmatch(text, -1) {
			found++
			source, err := os.ReadFile(p[1])
			require.NoError(t, err, doc)
			assert.Contains(t, string(source), p[2], "%s prints a part of %s", doc, p[1])
		}
	}
	assert.Positive(t, found)
}

var goBlock = regexp.MustCompile("(?sm)^```go\n(.*?)^```")

// flat removes what may differ between a document's program and the tested one: indentation, the
// alignment of comments, and the names of packages and functions.
func flat(text string) string {
	text = regexp.MustCompile(`(?m)^(package \w+|func (Example\w*|main)\(\) \{)$`).ReplaceAllString(text, "")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return strings.Join(lines, "\n")
}

// All Go in a document is also in a file that a test compiles, and that an example or a test runs.
func TestGoInDocumentsStandsInTests(t *testing.T) {
	var tested strings.Builder
	require.NoError(t, filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(p, "_test.go") && !strings.HasPrefix(filepath.ToSlash(p), "test/stores/programs/") || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(p)
		tested.WriteString(flat(string(text)) + "\n")
		return err
	}))
	all := tested.String()
	found := 0
	for doc, text := range documents(t) {
		if doc == "docs/start/tutorial.md" {
			continue // cmd/pawl: TestTheTutorialIsAsItSays builds and runs it
		}
		for _, b := range goBlock.FindAllStringSubmatch(text, -1) {
			found++
			assert.True(t, strings.Contains(all, flat(b[1])), "%s: no test has this:\n%s", doc, b[1])
		}
	}
	assert.Greater(t, found, 40)
}

// The comparison's rows about speed are those of the page with the measurements.
func TestTheComparisonHasTheSpeedThatWasMeasured(t *testing.T) {
	docs := documents(t)
	_, measured, _ := strings.Cut(docs["docs/results/performance.md"], "Each worker acquires and releases a lock of its own; all workers share one session.")
	rows := regexp.MustCompile(`(?m)^\| (?:acquisitions of uncontended locks|the same), (\d+) workers? \| \**([\d,]+) a second\** \| \**([\d,]+) a second`).FindAllStringSubmatch(docs["docs/explanation/peers.md"], -1)
	assert.Len(t, rows, 3)
	for _, r := range rows {
		found := regexp.MustCompile(`(?m)^\| ` + r[1] + ` \| pawl \| ([\d,]+) .*\n\|  \| clientv3 \| ([\d,]+) `).FindStringSubmatch(measured)
		require.NotNil(t, found, r[1])
		assert.Equal(t, r[2:], found[1:], "with %s workers", r[1])
	}
}

// table returns the cells of a page's first table by row and column.
func table(page string) map[string]map[string]string {
	cells := map[string]map[string]string{}
	var columns []string
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			if columns != nil {
				break
			}
			continue
		}
		words := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range words {
			words[i] = strings.TrimSpace(words[i])
		}
		if columns == nil {
			columns = words
			continue
		}
		row := map[string]string{}
		for i, w := range words[1:] {
			row[columns[i+1]] = w
		}
		cells[words[0]] = row
	}
	return cells
}

// The README's comparison is a part of the whole comparison.
func TestTheReadmesComparisonIsAPartOfTheWholeOne(t *testing.T) {
	docs := documents(t)
	_, after, found := strings.Cut(docs["README.md"], "## Compared with others")
	require.True(t, found)
	whole, short := table(docs["docs/explanation/peers.md"]), table(after)
	assert.Greater(t, len(short), 5)
	worse := 0
	for row, cells := range short {
		for column, cell := range cells {
			assert.Equal(t, whole[row][column], cell, "%s: %s", row, column)
		}
		best := false
		for _, cell := range cells {
			best = best || strings.Contains(cell, "**")
		}
		if best && !strings.Contains(cells["pawl"], "**") {
			worse++
		}
	}
	assert.Greater(t, worse, 3, "rows that pawl loses")
}
