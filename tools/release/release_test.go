package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// files are those of a tar, by their names.
func files(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if text, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = body
	}
}

// The release of this system: the binaries say their version, commit and date; package and image
// are what their tools and specification say; sums are right; and a second run makes the same.
func TestARelease(t *testing.T) {
	if os.Getenv("PAWL_RELEASE") == "" {
		t.Skip("it compiles all of the commands once more, without paths: make release-test")
	}
	if runtime.GOOS != "linux" {
		t.Skip("packages and images are Linux's")
	}
	dir := t.TempDir()
	here := "linux/" + runtime.GOARCH
	if err := run("v1.2.3", dir, []string{here}, []string{"pawl", "pawld"}); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	base := "pawl_1.2.3_linux_" + runtime.GOARCH
	in := files(t, read(base+".tar.gz"))
	for _, name := range []string{"pawl", "pawld", "man/pawl-lock.1", "man/pawld.8", "completion/bash", "LICENSE"} {
		if len(in[base+"/"+name]) == 0 {
			t.Errorf("no %s in the archive", name)
		}
	}
	commit, err := output("git", "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"pawl", "pawld"} {
		binary := filepath.Join(t.TempDir(), command)
		if err := os.WriteFile(binary, in[base+"/"+command], 0o755); err != nil {
			t.Fatal(err)
		}
		says, err := output(binary, "--version")
		if want := command + " version v1.2.3 " + commit + " of 20"; err != nil || !strings.HasPrefix(says, want) {
			t.Errorf("%q, %v, want %q", says, err, want)
		}
	}
	if page := string(in[base+"/man/pawld.8"]); !strings.Contains(page, `\-\-state\-dir string`) {
		t.Errorf("a flag is missing in:\n%s", page)
	}

	image := files(t, read(base+".oci.tar"))
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	blob := func(d descriptor) []byte {
		text := image["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if len(text) != d.Size || fmt.Sprintf("sha256:%x", sha256.Sum256(text)) != d.Digest {
			t.Errorf("%s is not what its digest says", d.Digest)
		}
		return text
	}
	if err := json.Unmarshal(image["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatal(err, index)
	}
	if err := json.Unmarshal(blob(index.Manifests[0]), &manifest); err != nil || len(manifest.Layers) != 1 {
		t.Fatal(err, manifest)
	}
	if config := blob(manifest.Config); !bytes.Contains(config, []byte(`"Entrypoint":["/pawl"]`)) {
		t.Errorf("%s", config)
	}
	if layer := files(t, blob(manifest.Layers[0])); !bytes.Equal(layer["pawl"], in[base+"/pawl"]) {
		t.Error("the image has another binary")
	}

	deb := "pawl_1.2.3_" + runtime.GOARCH + ".deb"
	if dpkg, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Log("no dpkg-deb: the package is not opened")
	} else {
		to := t.TempDir()
		if text, err := exec.Command(dpkg, "-x", filepath.Join(dir, deb), to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		about, err := output(dpkg, "-f", filepath.Join(dir, deb))
		if err != nil || !strings.Contains(about, "Version: 1.2.3\nArchitecture: "+runtime.GOARCH) {
			t.Errorf("%s, %v", about, err)
		}
		for _, name := range []string{"usr/bin/pawl", "usr/bin/pawld", "usr/share/man/man1/pawl-lock.1.gz", "usr/share/man/man8/pawld.8.gz", "usr/share/bash-completion/completions/pawl", "usr/share/doc/pawl/copyright"} {
			if _, err := os.Stat(filepath.Join(to, name)); err != nil {
				t.Error(err)
			}
		}
	}

	sums := read("SHA256SUMS")
	for _, name := range []string{base + ".tar.gz", base + ".cdx.json", base + ".oci.tar", deb} {
		if !bytes.Contains(sums, fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(read(name)), name)) {
			t.Errorf("no right sum of %s", name)
		}
	}
	again := t.TempDir()
	if err := run("v1.2.3", again, []string{here}, []string{"pawl", "pawld"}); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(filepath.Join(again, "SHA256SUMS")); err != nil || !bytes.Equal(sums, second) {
		t.Errorf("another run made something else, %v:\n%s%s", err, sums, second)
	}
}

// What a release is made for: the systems that the README and the changelog name.
func TestTheTargets(t *testing.T) {
	for _, want := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "freebsd/amd64", "netbsd/amd64", "openbsd/amd64"} {
		if !slices.Contains(targets, want) {
			t.Errorf("no %s", want)
		}
	}
}

// The image, of commands that are none, as another program reads it: skopeo, with each digest,
// and umoci, which unpacks the layer and compares it with the digest of what is in it.
func TestTheImage(t *testing.T) {
	r := &release{version: "v1.2.3", date: time.Unix(1e9, 0).UTC()}
	commands := []file{{"pawl", []byte("#!/bin/sh\n"), 0o755}, {"pawld", []byte("#!/bin/sh\n"), 0o755}}
	dir := t.TempDir()
	archive := filepath.Join(dir, "pawl.oci.tar")
	if err := os.WriteFile(archive, r.image(target{"linux", "arm64"}, commands), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("skopeo", func(t *testing.T) {
		skopeo := installed(t, "skopeo", "the container image")
		var about struct {
			Architecture, Os string
			Created          time.Time
			Labels           map[string]string
			Layers           []string
		}
		if text, err := output(skopeo, "inspect", "oci-archive:"+archive+":v1.2.3"); err != nil || json.Unmarshal([]byte(text), &about) != nil {
			t.Fatal(text, err)
		}
		if about.Architecture != "arm64" || about.Os != "linux" || !about.Created.Equal(r.date) || len(about.Layers) != 1 ||
			about.Labels["org.opencontainers.image.version"] != "v1.2.3" {
			t.Errorf("%+v", about)
		}
		var starts struct {
			Config struct {
				Entrypoint []string
				User       string
			}
		}
		text, err := output(skopeo, "inspect", "--config", "oci-archive:"+archive)
		if err != nil || json.Unmarshal([]byte(text), &starts) != nil || !slices.Equal(starts.Config.Entrypoint, []string{"/pawl"}) || starts.Config.User != "65532:65532" {
			t.Error(text, err)
		}
		// As docker load takes it: each blob is read, and its digest checked.
		if text, err := exec.Command(skopeo, "--insecure-policy", "copy", "oci-archive:"+archive, "docker-archive:"+filepath.Join(dir, "docker.tar")+":pawl:v1.2.3").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, text)
		}
	})
	t.Run("umoci", func(t *testing.T) {
		umoci := installed(t, "umoci", "the container image")
		layout, bundle := filepath.Join(dir, "layout"), filepath.Join(dir, "bundle")
		for name, text := range files(t, r.image(target{"linux", "arm64"}, commands)) {
			if strings.HasSuffix(name, "/") {
				continue
			}
			path := filepath.Join(layout, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if text, err := exec.Command(umoci, "unpack", "--rootless", "--image", layout+":v1.2.3", bundle).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, c := range commands {
			path := filepath.Join(bundle, "rootfs", c.name)
			text, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(text, c.text) {
				t.Errorf("%s: %q, %v", c.name, text, err)
			}
			if about, err := os.Stat(path); err == nil && about.Mode().Perm() != 0o755 {
				t.Errorf("%s has mode %v", c.name, about.Mode())
			}
		}
	})
}

// installed is where a program is, that reads what a release has; where there is none, that is
// noted, and the test skipped.
func installed(t *testing.T, name, what string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if note := os.Getenv("PAWL_SKIPPED"); note != "" {
		f, err := os.OpenFile(note, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fmt.Fprintf(f, "SKIPPED: %s was not read by %s: it is not installed\n", what, name)
	}
	t.Skip("no ", name, " here")
	return ""
}

// The package, of dummy commands, is what dpkg takes. A release candidate comes before its release,
// the daemon's files are where systemd and dpkg look for them, and the scripts are shell.
func TestThePackage(t *testing.T) {
	dpkg := installed(t, "dpkg-deb", "the Debian package")
	root, err := output("git", "rev-parse", "--show-toplevel")
	if err != nil {
		t.Skip("no git here: ", err)
	}
	r := &release{version: "v1.2.0-rc.1", root: root, date: time.Unix(1e9, 0), commands: []string{"pawl", "pawld"}}
	text, err := r.deb(target{"linux", "amd64"}, []file{{"pawl", []byte("#!/bin/sh\n"), 0o755}, {"pawld", []byte("#!/bin/sh\n"), 0o755}},
		[]file{{"man/pawld.8", daemonPage("about\n.dot\n\n      --flag string   what it's for\n"), 0o644}, {"LICENSE", []byte("all\n"), 0o644}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	deb, to := filepath.Join(dir, "pawl.deb"), filepath.Join(dir, "to")
	if err := os.WriteFile(deb, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(dpkg, "--raw-extract", deb, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	version, err := output(dpkg, "-f", deb, "Version")
	if err != nil || exec.Command("dpkg", "--compare-versions", version, "lt", "1.2.0").Run() != nil {
		t.Errorf("%q, %v: not before 1.2.0", version, err)
	}
	for name, want := range map[string]string{
		"DEBIAN/conffiles":                     "/etc/pawl/pawld.conf\n",
		"etc/pawl/pawld.conf":                  "#endpoints = ",
		"usr/lib/systemd/system/pawld.service": "ExecStart=/usr/bin/pawld --config /etc/pawl/pawld.conf",
		"usr/lib/systemd/system/pawld.socket":  "ListenStream=/run/pawl/pawld.sock",
		"usr/lib/sysusers.d/pawl.conf":         "u pawl ",
		"usr/share/man/man8/pawld.8.gz":        "",
		"usr/share/doc/pawl/copyright":         "all",
		"usr/bin/pawld":                        "#!/bin/sh",
	} {
		if text, err := os.ReadFile(filepath.Join(to, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		if out, err := exec.Command("sh", "-n", filepath.Join(to, "DEBIAN", script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, out)
		}
	}
	if page := string(daemonPage("about\n.dot\n\n      --flag string   what it's for\n")); !strings.Contains(page, "\n\\&.dot\n") || !strings.Contains(page, `\-\-flag string`) {
		t.Errorf("%s", page)
	}
}
