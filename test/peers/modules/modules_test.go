// Package modules builds and runs programs that have pawl beside another module that uses etcd, in one of several
// versions: nothing else, etcd's client, its embedded server, Kubernetes' API server. Each program gets its
// versions by Go's own selection, outside of the workspace.
package modules

import (
	"bytes"
	"context"
	"embed"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// programs has main.go, which uses pawl, and a file for each kind of program with its function beside.
//
//go:embed program
var programs embed.FS

// A row is one program.
type row struct {
	kind    string // a file of programs
	module  string // that it requires; none if empty
	version string // or "3.6", for the newest of 3.6
	api     string // what the version of etcd's API module begins with
}

var rows = []row{
	{"nothing", "", "", "v3.5.28"},
	{"client", "go.etcd.io/etcd/client/v3", "v3.5.28", "v3.5.28"},
	{"client", "go.etcd.io/etcd/client/v3", "v3.6.9", "v3.6.9"},
	{"client", "go.etcd.io/etcd/client/v3", "v3.6", "v3.6."},
	{"client", "go.etcd.io/etcd/client/v3", "v3.7.0", "v3.7.0"},
	{"client", "go.etcd.io/etcd/client/v3", "v3.7", "v3.7."},
	{"server", "go.etcd.io/etcd/server/v3", "v3.6.9", "v3.6.9"},
	{"server", "go.etcd.io/etcd/server/v3", "v3.7.0", "v3.7.0"},
	{"apiserver", "k8s.io/apiserver", "v0.34.1", "v3.6."},
	{"apiserver", "k8s.io/apiserver", "v0.37.2", "v3."},
}

func (r row) name() string {
	if r.module == "" {
		return r.kind
	}
	return r.kind + "@" + r.version
}

var which = flag.String("modules", "", `the programs to run, such as "nothing,client@v3.5.28", or "all"`)

func TestProgramsWithPawlAndAnotherModuleLockBesideIt(t *testing.T) {
	if *which == "" {
		t.Skip("needs the module proxy and minutes of compiling: .ci/run has some of it, and make outside all (-modules all)")
	}
	ran := 0
	for _, r := range rows {
		if selected(r.name()) {
			ran++
			t.Run(r.name(), r.run)
		}
	}
	require.Positive(t, ran, "no program is called so: %s", *which)
}

// selected reports whether a program is to be run.
func selected(name string) bool {
	return *which == "all" || slices.Contains(strings.Split(*which, ","), name)
}

// run makes a module of the row in a folder, as a user would, and runs its program with a real server.
func (r row) run(t *testing.T) {
	p := program{t, t.TempDir()}
	p.copy("main.go")
	p.copy(r.kind + ".go")
	p.init()
	if r.module != "" {
		p.run("go", "get", r.module+"@"+r.version)
	}
	p.run("go", "mod", "tidy")
	got := strings.TrimSpace(p.run("go", "list", "-m", "-f", "{{.Version}}", "go.etcd.io/etcd/api/v3"))
	require.True(t, strings.HasPrefix(got, r.api), "it is to run with API module %s, and not with %s", r.api, got)
	p.run("go", "vet", ".")
	p.run("go", "build", "-o", "beside", ".")
	p.run("./beside", etcdtest.Start(t).Endpoints()[0])
}

type program struct {
	t   *testing.T
	dir string
}

// init makes the folder a module that requires pawl.
func (p program) init() {
	p.t.Helper()
	root, err := filepath.Abs("../../..")
	require.NoError(p.t, err)
	p.run("go", "mod", "init", "example.com/beside")
	p.run("go", "mod", "edit", "-go=1.25.0", "-require="+pawl+"@v0.0.0", "-replace="+pawl+"="+root)
}

func (p program) copy(name string) {
	p.t.Helper()
	text, err := programs.ReadFile("program/" + name)
	require.NoError(p.t, err)
	text = bytes.TrimPrefix(text, []byte("//go:build ignore\n\n"))
	require.NoError(p.t, os.WriteFile(filepath.Join(p.dir, name), text, 0o600))
}

// run runs a command in the module, and returns what it printed to stdout.
func (p program) run(name string, args ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*testscale.Hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = p.dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod"), &stderr
	out, err := cmd.Output()
	require.NoError(p.t, err, "%s %s\n%s%s", name, strings.Join(args, " "), out, stderr.String())
	return string(out)
}
