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

// The clients have separate tests, with a clock and a daemon that they control.
// rule: V3
func TestEachClientPassesItsOwnTests(t *testing.T) {
	t.Parallel()
	for folder, of := range map[string]struct {
		files   string
		command func(file string) []string
	}{
		"../../clients/python": {"tests/test_*.py", func(file string) []string {
			return []string{"python3", "-m", "unittest", "discover", "-s", filepath.Dir(file), "-p", filepath.Base(file)}
		}},
		"../../clients/node": {"test/*.test.js", func(file string) []string { return []string{"node", file} }},
	} {
		files, err := filepath.Glob(filepath.Join(folder, of.files))
		require.NoError(t, err)
		require.NotEmpty(t, files, folder)
		for _, file := range files { // side by side: most of what they do is wait
			in, err := filepath.Rel(folder, file)
			require.NoError(t, err)
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				command := of.command(in)
				program, err := exec.LookPath(command[0])
				require.NoError(t, err, "%s is needed for this test", command[0])
				run := exec.Command(program, command[1:]...)
				run.Dir = folder
				out, err := run.CombinedOutput()
				require.NoError(t, err, "%s", out)
			})
		}
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
	var manifest struct {
		Name, Main, Types string
		Files             []string
		Dependencies      map[string]string
	}
	require.NoError(t, json.Unmarshal(text, &manifest))
	assert.Contains(t, manifest.Files, manifest.Main)
	assert.Contains(t, manifest.Files, manifest.Types)
	assert.Empty(t, manifest.Dependencies)

	installed := t.TempDir()
	for _, file := range append(manifest.Files, "package.json") {
		copyFile(t, filepath.Join(folder, file), filepath.Join(installed, "node_modules", manifest.Name, file))
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

	types, err := os.ReadFile(filepath.Join(folder, manifest.Types))
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

// The Python package is built and installed by pip alone, without a network, and is marked as typed.
func TestThePythonPackageInstallsWithoutANetwork(t *testing.T) {
	t.Parallel()
	const folder = "../../clients/python"
	program, err := exec.LookPath("python3")
	require.NoError(t, err, "python3 is needed for this test")
	if exec.Command(program, "-m", "pip", "--version").Run() != nil {
		skip(t, "python3 has no pip")
	}
	text, err := os.ReadFile(filepath.Join(folder, "pyproject.toml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "\ndependencies = []\n")
	installed := t.TempDir()
	out, err := exec.Command(program, "-m", "pip", "install", "--no-index", "--no-cache-dir", "--disable-pip-version-check", "--target", installed, folder).CombinedOutput()
	require.NoError(t, err, "%s", out)
	modules, err := filepath.Glob(filepath.Join(folder, "pawld", "*.py"))
	require.NoError(t, err)
	for _, file := range append(modules, "py.typed") {
		assert.FileExists(t, filepath.Join(installed, "pawld", filepath.Base(file)))
	}
	run := exec.Command(program, "-c", "import pawld.aio as aio, pawld; print(pawld.__file__, *set(pawld.__all__) ^ set(aio.__all__))")
	run.Dir = installed
	out, err = run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, filepath.Join(installed, "pawld", "__init__.py"), strings.TrimSpace(string(out)))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	require.NoError(t, os.WriteFile(to, b, 0o644))
}
