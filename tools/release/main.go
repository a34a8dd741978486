// Command release makes what is published of a version: static binaries of the commands for each
// system, what is in them (a bill of materials), a Debian package, a container image, and the checksums of
// all of them.
//
//	go run ./tools/release -version v0.1.0 -o dist
//
// It needs Go and git, and no daemon and no root. It needs no network if the modules are there. The
// same commit gives the same files.
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A target is a system that binaries are made for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

var targets = []string{
	"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "freebsd/amd64", "netbsd/amd64", "openbsd/amd64",
}

// versions is the package that holds a command's version.
const versions = "github.com/pawl-locks/pawl/internal/version"

// A release is one version under way.
type release struct {
	version  string
	commit   string
	date     time.Time // of the commit
	root     string    // of the repository
	dir      string    // where the results go
	commands []string
}

func main() {
	log.SetFlags(0)
	var (
		version = flag.String("version", "v0.0.0-dev", "the version, v1.2.3")
		dir     = flag.String("o", "dist", "where the files go")
		only    = flag.String("targets", strings.Join(targets, ","), "the systems to build for")
		of      = flag.String("commands", "pawl,pawld", "the commands to build")
	)
	flag.Parse()
	if err := run(*version, *dir, strings.Split(*only, ","), strings.Split(*of, ",")); err != nil {
		log.Fatal("release: ", err)
	}
}

func run(version, dir string, only, commands []string) error {
	root, err := output("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	commit, err := output("git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	when, err := output("git", "log", "-1", "--format=%cI")
	if err != nil {
		return err
	}
	date, err := time.Parse(time.RFC3339, when)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	r := &release{version: version, commit: commit, date: date.UTC(), root: root, dir: dir, commands: commands}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	docs, err := r.documents()
	if err != nil {
		return err
	}
	for _, name := range only {
		sys, arch, ok := strings.Cut(name, "/")
		if !ok {
			return fmt.Errorf("target %q, want os/arch", name)
		}
		if err := r.make(target{sys, arch}, docs); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return r.checksums()
}

// make makes all files of a target.
func (r *release) make(t target, docs []file) error {
	binaries, err := r.build(t)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("pawl_%s_%s_%s", strings.TrimPrefix(r.version, "v"), t.os, t.arch)
	if err := r.write(name+".tar.gz", r.archive(name, binaries, docs)); err != nil {
		return err
	}
	bill, err := r.bill(t, binaries)
	if err != nil {
		return err
	}
	if err := r.write(name+".cdx.json", bill); err != nil {
		return err
	}
	if t.os != "linux" {
		return nil
	}
	deb, err := r.deb(t, binaries, docs)
	if err != nil {
		return err
	}
	if err := r.write(fmt.Sprintf("pawl_%s_%s.deb", strings.TrimPrefix(r.version, "v"), t.arch), deb); err != nil {
		return err
	}
	return r.write(name+".oci.tar", r.image(t, binaries))
}

// build makes the binaries of a target. They are static, without paths of this machine, with
// version, commit and date inside.
func (r *release) build(t target) ([]file, error) {
	var binaries []file
	for _, command := range r.commands {
		tmp, err := os.MkdirTemp("", "release")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(tmp) }()
		out := filepath.Join(tmp, command)
		build := exec.Command("go", "build", "-trimpath", "-o", out, "-ldflags",
			fmt.Sprintf("-s -w -X %[1]s.release=%[2]s -X %[1]s.commit=%[3]s -X %[1]s.date=%[4]s", versions, r.version, r.commit, r.date.Format(time.RFC3339)), "./cmd/"+command)
		build.Dir = r.root
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch)
		if text, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, text)
		}
		binary, err := os.ReadFile(out)
		if err != nil {
			return nil, err
		}
		binaries = append(binaries, file{command, binary, 0o755})
	}
	return binaries, nil
}

// documents are the man pages and completions, which the commands themselves make, and the
// licence.
func (r *release) documents() ([]file, error) {
	tmp, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	pawl := filepath.Join(tmp, "pawl")
	if err := r.compile(pawl, "pawl"); err != nil {
		return nil, err
	}
	man := filepath.Join(tmp, "man")
	if _, err := output(pawl, "man", man); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(man, "*.1"))
	if err != nil {
		return nil, err
	}
	var docs []file
	for _, p := range pages {
		text, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		docs = append(docs, file{"man/" + filepath.Base(p), text, 0o644})
	}
	if r.has("pawld") {
		pawld := filepath.Join(tmp, "pawld")
		if err := r.compile(pawld, "pawld"); err != nil {
			return nil, err
		}
		help, err := exec.Command(pawld, "--help").CombinedOutput()
		if err != nil {
			return nil, err
		}
		docs = append(docs, file{"man/pawld.8", daemonPage(string(help)), 0o644})
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := exec.Command(pawl, "completion", shell).Output()
		if err != nil {
			return nil, err
		}
		docs = append(docs, file{"completion/" + shell, text, 0o644})
	}
	for _, name := range []string{"LICENSE", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		docs = append(docs, file{name, text, 0o644})
	}
	return docs, nil
}

// compile builds a command for this system, to run it and read its output.
func (r *release) compile(out, command string) error {
	build := exec.Command("go", "build", "-o", out, "./cmd/"+command)
	build.Dir = r.root
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	return nil
}

// daemonPage is the man page of pawld: the output of pawld --help, as it stands.
func daemonPage(help string) []byte {
	about, flags, _ := strings.Cut(help, "\n      --")
	literal := func(text string) string {
		return ".nf\n" + strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'").Replace(strings.Trim(text, "\n")) + "\n.fi\n"
	}
	return []byte(".TH PAWLD 8 \"\" pawl pawl\n" +
		".SH NAME\npawld \\- locks and elections on etcd for programs in any language\n" +
		".SH SYNOPSIS\n.B pawld\n[flags]\n" +
		".SH DESCRIPTION\n" + literal(about) +
		".SH OPTIONS\n" + literal("      --"+flags) +
		".SH FILES\n.I /etc/pawl/pawld.conf\nis what the unit pawld.service gives to \\-\\-config.\n" +
		".SH SEE ALSO\n.BR pawl (1)\n")
}

// checksums writes SHA256SUMS, which sha256sum -c reads.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, e := range entries {
		if e.Name() == "SHA256SUMS" || e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(text), e.Name())
	}
	return r.write("SHA256SUMS", sums.Bytes())
}

func (r *release) write(name string, text []byte) error {
	return os.WriteFile(filepath.Join(r.dir, name), text, 0o644)
}

// has reports whether a command is part of the release.
func (r *release) has(command string) bool { return slices.Contains(r.commands, command) }

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
