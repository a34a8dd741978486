package repo_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

const module = "github.com/pawl-locks/pawl"

// layers are the packages of the lock itself; "." is this one. A package may import those of the lines
// above its line, and none of its line or below.
var layers = [][]string{
	{"fencing", "internal/backoff", "internal/cleanup", "internal/clock", "internal/detached", "internal/etcdapi", "internal/failing", "internal/gate", "internal/keys", "internal/tlsfiles", "internal/txn"},
	{"observe", "internal/queue/state", "internal/shards"},
	{"internal/notify"},
	{"internal/cluster"},
	{"internal/batch"},
	{"internal/watcher", "watch"},
	{"internal/listwatch", "lease"},
	{"internal/session"},
	{"internal/reclaim"},
	{"internal/hooks"},
	{"kv"},
	{"internal/queue"},
	{"."},
	{"internal/inspect"},
	{"lock", "elect"},
	{"shard"},
}

// beside are packages that no package of layers may import. Each may import the packages of this
// project that it maps to. "*" is every package of layers.
var beside = map[string][]string{
	"adapters/...":                          {"*"},
	"cmd/pawl":                              {"*", "cmd/pawl/internal/...", "fencing/sqlfence", "internal/testkit/loopback", "internal/version"},
	"cmd/pawl/internal/...":                 {"*", "cmd/pawl/internal/...", "fencing/sqlfence", "test/etcdtest/devserver", "internal/testkit/loopback", "internal/version"},
	"cmd/pawld":                             {"*", "cmd/pawld/...", "test/etcdtest/devserver", "internal/version"},
	"cmd/pawld/internal/...":                {"*", "cmd/pawld/...", "internal/version"},
	"cmd/pawld/pawlv1":                      {},
	"cmd/pawld/pawlv1/pawlv1connect":        {"cmd/pawld/pawlv1"},
	"fencing/blobfence":                     {"fencing", "internal/backoff"},
	"fencing/fencetest":                     {"fencing"},
	"fencing/grpcfence":                     {"fencing", "fencing/internal/wire"},
	"fencing/httpfence":                     {"fencing", "fencing/internal/wire"},
	"fencing/internal/wire":                 {"fencing"},
	"fencing/internal/sqltable":             {"fencing"},
	"fencing/pgxfence":                      {"fencing", "fencing/internal/sqltable"},
	"fencing/sqlfence":                      {"fencing", "fencing/internal/sqltable"},
	"internal/cause":                        {"*"},
	"internal/version":                      {},
	"internal/testkit/assert":               {},
	"internal/testkit/require":              {"internal/testkit/assert"},
	"internal/testkit/leaks":                {},
	"internal/testkit/bystander":            {"*", "internal/testkit/assert", "internal/testkit/require"},
	"internal/testkit/bufdial":              {"internal/gate"},
	"internal/testkit/etcdfake":             {"internal/etcdapi", "internal/testkit/etcdfake/..."},
	"internal/testkit/etcdfake/etcd":        {"internal/etcdapi"},
	"internal/testkit/etcdfake/wire":        {},
	"internal/testkit/etcdfake/conformance": {"internal/etcdapi", "internal/testkit/require"},
	"internal/testkit/faultproxy":           {"internal/testkit/loopback"},
	"internal/testkit/fleet":                {"fencing", "fencing/blobfence", "fencing/fencetest"},
	"internal/testkit/inmemory":             {"*", "internal/testkit/etcdfake", "internal/testkit/opnames", "internal/testkit/syncbuffer"},
	"internal/testkit/leaderview":           {"*", "internal/testkit/etcdfake"},
	"internal/testkit/metricspage":          {},
	"internal/testkit/opnames":              {"*", "internal/testkit/etcdfake"},
	"internal/testkit/pairbench":            {},
	"internal/testkit/testscale":            {},
	"internal/testkit/launch":               {},
	"internal/testkit/loopback":             {},
	"internal/testkit/pki":                  {"internal/testkit/bufdial"},
	"internal/testkit/racedetector":         {},
	"internal/testkit/exampletb":            {},
	"internal/testkit/syncbuffer":           {},
	"kv/clientv3guard":                      {"kv"},
	"observe/otel":                          {"*", "internal/cause"},
	"observe/prom":                          {"*", "internal/cause"},
	"tools/protogen":                        {},
	"tools/release":                         {},
	"test/...":                              {"*", "kv/clientv3guard", "fencing", "fencing/fencetest", "internal/testkit/...", "test/...", "fencing/sqlfence"},
}

// heavy are modules that a user's program must not get, and the only packages outside of tests that may
// import them.
var heavy = map[string][]string{
	"github.com/go-co-op":       {"adapters/pawlgocron"},
	"github.com/pressly":        {"adapters/pawlgoose"},
	"github.com/caddyserver":    {"adapters/pawlcertmagic"},
	"go.etcd.io/etcd/client/v3": {"kv/clientv3guard", "test/..."},
	"go.etcd.io/etcd/server":    {"cmd/pawl/...", "cmd/pawl", "test/..."},
	"github.com/jackc/pgx":      {"fencing/pgxfence", "test/..."},
	"github.com/go-sql-driver":  {"test/..."},
	"github.com/stretchr":       {"test/..."},
	"go.uber.org/goleak":        {"test/..."},
}

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Imports    []string
}

func (l listed) name() string {
	if l.ImportPath == module {
		return "."
	}
	return strings.TrimPrefix(l.ImportPath, module+"/")
}

func goList(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return string(out)
}

// first is the folder in which README's first program is saved.
const first = "first"

// packages are those of all modules in the workspace or, without a workspace, those of this module.
func packages(t *testing.T) (all []listed) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(goList(t, "-json=ImportPath,Imports", "work")))
	for {
		var l listed
		err := dec.Decode(&l)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if l.name() != first {
			all = append(all, l)
		}
	}
}

// match reports whether one of patterns is name, or the folder/... that it is in.
func match(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		dir, all := strings.CutSuffix(p, "...")
		return p == name || all && strings.HasPrefix(name, dir)
	})
}

// allowed are the patterns of this module's packages that name may import.
func allowed(t *testing.T, name string) (patterns []string) {
	for i, line := range layers {
		if slices.Contains(line, name) {
			return slices.Concat(layers[:i]...)
		}
	}
	for pattern, imports := range beside {
		if match([]string{pattern}, name) {
			if slices.Contains(imports, "*") {
				imports = slices.Concat(append(layers, imports)...)
			}
			return imports
		}
	}
	t.Errorf("package %s stands in no table: say in deps_test.go what it may import", name)
	return []string{"..."}
}

func TestPackagesImportOnlyWhatTheTablesAllow(t *testing.T) {
	for _, p := range packages(t) {
		mayImport := allowed(t, p.name())
		for _, path := range p.Imports {
			imported := listed{ImportPath: path}.name()
			if path == module || imported != path {
				assert.True(t, match(mayImport, imported), "%s must not import %s", p.name(), imported)
			}
			for _, big := range slices.Sorted(maps.Keys(heavy)) {
				if strings.HasPrefix(path, big) {
					assert.True(t, match(heavy[big], p.name()), "%s must not import %s", p.name(), path)
				}
			}
		}
	}
}

var mapped = regexp.MustCompile("`([\\w./*-]+)`")

// The map of ARCHITECTURE.md names every package, and nothing that does not exist.
func TestTheMapHasEachPackage(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	var patterns []string
	packages, _, found := strings.Cut(string(text), "\n## How a lock is taken")
	require.True(t, found)
	for _, row := range regexp.MustCompile(`(?m)^\|[^|]*\|([^|]*)\|[^|]*\|$`).FindAllStringSubmatch(packages, -1) {
		for _, m := range mapped.FindAllStringSubmatch(row[1], -1) {
			name := strings.Replace(m[1], "*", "...", 1)
			if name == "pawl" {
				name = "."
			}
			dir := strings.TrimSuffix(name, "/...")
			assert.DirExists(t, dir, "the map names it")
			patterns = append(patterns, name, dir)
		}
	}
	require.Greater(t, len(patterns), 100)
	require.NoError(t, filepath.WalkDir(".", func(p string, _ fs.DirEntry, err error) error {
		if path.Ext(p) == ".go" {
			dir := filepath.ToSlash(filepath.Dir(p))
			assert.True(t, dir == first || match(patterns, dir), "the map of ARCHITECTURE.md lacks %s", dir)
		}
		return err
	}))
}

// The packages that users import depend only on etcd's stubs, gRPC, and what these two need. Add
// nothing without a strong reason.
func TestUsersGetEtcdsStubsAndGRPCAndNoMore(t *testing.T) {
	grpc := []string{
		"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
		"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf",
	}
	stubs := append([]string{
		"go.etcd.io/etcd/api/v3", "github.com/golang/protobuf", "google.golang.org/genproto/googleapis/api",
	}, grpc...)
	// What the stubs need depends on their version.
	if version := strings.TrimSpace(goList(t, "-m", "-f", "{{.Version}}", "go.etcd.io/etcd/api/v3")); version < "v3.7" {
		stubs = append(stubs, "github.com/gogo/protobuf")
	} else {
		stubs = append(stubs, "github.com/grpc-ecosystem/grpc-gateway/v2")
	}
	for pattern, want := range map[string][]string{
		"./lock ./elect ./shard ./kv ./watch ./lease . ./test/pawltest": stubs,
		"./fencing/grpcfence":                              grpc,
		"./fencing ./fencing/sqlfence ./fencing/httpfence": {},
		"./fencing/blobfence ./fencing/fencetest":          {},
	} {
		args := append([]string{"-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}, strings.Fields(pattern)...)
		got := slices.Compact(slices.Sorted(slices.Values(strings.Fields(goList(t, args...)))))
		assert.ElementsMatch(t, append(want, module), got, pattern)
	}
}

// go mod tidy adds what the tests of a program's packages need to that program's go.mod, whether or not
// this go.mod requires it. So the tests of the root import nothing that its users do not get anyway:
// checks are in internal/testkit/assert and require, and those of leaks in internal/testkit/leaks.
func TestTestsOfTheRootImportNothingThatUsersWouldGet(t *testing.T) {
	out := goList(t, "-f", `{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}{{range .TestImports}}{{$p}} {{.}}{{"\n"}}{{end}}{{range .XTestImports}}{{$p}} {{.}}{{"\n"}}{{end}}`, "./...")
	for line := range strings.Lines(out) {
		pkg, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		if host, _, _ := strings.Cut(path, "/"); !strings.Contains(host, ".") || match([]string{module + "/..."}, path+"/") {
			continue
		}
		ok := slices.ContainsFunc(required, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
		assert.True(t, ok, "%s or its tests must not import %s", pkg, path)
	}
}

// required are the modules that the root requires directly.
var required = []string{
	"go.etcd.io/etcd/api/v3", "google.golang.org/grpc", "google.golang.org/protobuf",
	"google.golang.org/genproto/googleapis/rpc", "golang.org/x/sys",
}

// The root's requirements take part in the selection of its users' versions, so it requires only what
// its users need, and the lowest versions of it. What tests, tools and commands need belongs in separate
// modules.
func TestTheRootRequiresTheLowestVersionsOfWhatItsUsersNeed(t *testing.T) {
	var mod struct {
		Go, Toolchain string
		Require       []struct {
			Path, Version string
			Indirect      bool
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json").Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &mod))
	var direct []string
	version := make(map[string]string)
	for _, r := range mod.Require {
		if version[r.Path] = r.Version; !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	assert.ElementsMatch(t, required, direct)
	assert.Equal(t, "1.25.0", mod.Go)
	assert.Empty(t, mod.Toolchain)
	assert.Equal(t, "v3.5.28", version["go.etcd.io/etcd/api/v3"])
	assert.Equal(t, "v1.79.3", version["google.golang.org/grpc"], "what that version of etcd's module asks for")
}
