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
	"strings"
	"testing"
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

// The release of this system, of the command alone: the binary says its version, commit and
// date; package and image are what their tools and specification say; sums are right; and
// a second run makes the same.
func TestARelease(t *testing.T) {
	if os.Getenv("PAWL_RELEASE") == "" {
		t.Skip("it compiles all of the command once more, without paths: make release-test")
	}
	if runtime.GOOS != "linux" {
		t.Skip("packages and images are Linux's")
	}
	dir := t.TempDir()
	here := "linux/" + runtime.GOARCH
	if err := run("v1.2.3", dir, []string{here}, []string{"pawl"}); err != nil {
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
	for _, name := range []string{"pawl", "man/pawl-lock.1", "completion/bash", "LICENSE"} {
		if len(in[base+"/"+name]) == 0 {
			t.Errorf("no %s in the archive", name)
		}
	}
	pawl := filepath.Join(t.TempDir(), "pawl")
	if err := os.WriteFile(pawl, in[base+"/pawl"], 0o755); err != nil {
		t.Fatal(err)
	}
	says, err := output(pawl, "--version")
	when, _ := output("git", "log", "-1", "--format=%cI")
	if err != nil || !strings.Contains(says, "v1.2.3 ") || !strings.Contains(says, " of 20") || when == "" {
		t.Errorf("%q, %v", says, err)
	}
	if commit, _ := output("git", "rev-parse", "HEAD"); !strings.Contains(says, commit) {
		t.Errorf("%q does not say commit %s", says, commit)
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
		for _, name := range []string{"usr/bin/pawl", "usr/share/man/man1/pawl-lock.1.gz", "usr/share/bash-completion/completions/pawl", "usr/share/doc/pawl/copyright"} {
			if _, err := os.Stat(filepath.Join(to, name)); err != nil {
				t.Error(err)
			}
		}
	}

	sums := read("SHA256SUMS")
	for _, name := range []string{base + ".tar.gz", base + ".oci.tar", deb} {
		if !bytes.Contains(sums, fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(read(name)), name)) {
			t.Errorf("no right sum of %s", name)
		}
	}
	again := t.TempDir()
	if err := run("v1.2.3", again, []string{here}, []string{"pawl"}); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(filepath.Join(again, "SHA256SUMS")); err != nil || !bytes.Equal(sums, second) {
		t.Errorf("another run made something else, %v:\n%s%s", err, sums, second)
	}
}
