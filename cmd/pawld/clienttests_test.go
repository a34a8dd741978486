package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The clients have tests of their own, with a clock and a daemon that they control.
func TestEachClientPassesItsOwnTests(t *testing.T) {
	t.Parallel()
	for folder, command := range map[string][]string{
		"../../clients/python": {"python3", "-m", "unittest", "discover", "-s", "tests"},
		"../../clients/node":   {"node", "--test", "test/session.test.js", "test/close.test.js", "test/process.test.js", "test/failures.test.js", "test/calls.test.js"},
	} {
		t.Run(command[0], func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(command[0])
			require.NoError(t, err, "%s is needed for this test", command[0])
			run := exec.Command(program, command[1:]...)
			run.Dir = folder
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}

// The Node package, with no files but those that package.json names, has the classes and methods
// that its types declare, and no others.
func TestTheNodePackageIsWhatItsTypesDeclare(t *testing.T) {
	t.Parallel()
	const folder = "../../clients/node"
	program, err := exec.LookPath("node")
	require.NoError(t, err, "node is needed for this test")
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	require.NoError(t, err)
	var named struct {
		Name, Main, Types string
		Files             []string
		Dependencies      map[string]string
	}
	require.NoError(t, json.Unmarshal(text, &named))
	assert.Contains(t, named.Files, named.Main)
	assert.Contains(t, named.Files, named.Types)
	assert.Empty(t, named.Dependencies)

	installed := t.TempDir()
	for _, file := range append(named.Files, "package.json") {
		copyFile(t, filepath.Join(folder, file), filepath.Join(installed, "node_modules", named.Name, file))
	}
	run := exec.Command(program, "-e", `const out = {};
for (const [name, c] of Object.entries(require("pawld")))
  out[name] = Object.getOwnPropertyNames(c.prototype).filter((m) => m !== "constructor" && !m.startsWith("_")).sort();
console.log(JSON.stringify(out));`)
	run.Dir = installed
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var exported map[string][]string
	require.NoError(t, json.Unmarshal(out, &exported), "%s", out)

	types, err := os.ReadFile(filepath.Join(folder, named.Types))
	require.NoError(t, err)
	declared := map[string][]string{}
	for _, class := range regexp.MustCompile(`(?ms)^export class (\w+).*?^}`).FindAllStringSubmatch(string(types), -1) {
		methods := []string{}
		for _, m := range regexp.MustCompile(`(?m)^  (\w+)[<(]`).FindAllStringSubmatch(class[0], -1) {
			if m[1] != "constructor" && !slices.Contains(methods, m[1]) { // once for all its overloads
				methods = append(methods, m[1])
			}
		}
		slices.Sort(methods)
		declared[class[1]] = methods
	}
	assert.Equal(t, declared, exported)
}

// The Python package, with no files but those that pyproject.toml names, can be imported, and is
// marked as typed.
func TestThePythonPackageHasWhatItNames(t *testing.T) {
	t.Parallel()
	const folder = "../../clients/python"
	program, err := exec.LookPath("python3")
	require.NoError(t, err, "python3 is needed for this test")
	text, err := os.ReadFile(filepath.Join(folder, "pyproject.toml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "\npackages = [\"pawld\"]\n")
	require.Contains(t, string(text), "\npawld = [\"py.typed\"]\n")
	require.Contains(t, string(text), "\ndependencies = []\n")
	modules, err := filepath.Glob(filepath.Join(folder, "pawld", "*.py"))
	require.NoError(t, err)
	installed := t.TempDir()
	for _, file := range append(modules, filepath.Join(folder, "pawld", "py.typed")) {
		copyFile(t, file, filepath.Join(installed, "pawld", filepath.Base(file)))
	}
	run := exec.Command(program, "-c", "import pawld; print(*sorted(pawld.__all__))")
	run.Dir = installed
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, strings.Fields(string(out)), "Session")
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	require.NoError(t, os.WriteFile(to, b, 0o644))
}
