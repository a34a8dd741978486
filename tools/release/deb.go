package main

import (
	"bytes"
	"crypto/md5" // what dpkg compares installed files with
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// deb is a Debian package of the commands, man pages, completions, and the daemon's units with the
// user that they name.
func (r *release) deb(t target, binaries, docs []file) ([]byte, error) {
	var files []file
	add := func(name string, text []byte, mode int64) { files = append(files, file{name, text, mode}) }
	for _, b := range binaries {
		add("usr/bin/"+b.name, b.text, 0o755)
	}
	for _, d := range docs {
		switch dir, base := path.Split(d.name); {
		case dir == "man/":
			add("usr/share/man/man"+path.Ext(base)[1:]+"/"+base+".gz", zipped(d.text), 0o644)
		case d.name == "completion/bash":
			add("usr/share/bash-completion/completions/pawl", d.text, 0o644)
		case d.name == "completion/zsh":
			add("usr/share/zsh/vendor-completions/_pawl", d.text, 0o644)
		case d.name == "completion/fish":
			add("usr/share/fish/vendor_completions.d/pawl.fish", d.text, 0o644)
		case d.name == "LICENSE":
			add("usr/share/doc/pawl/copyright", d.text, 0o644)
		default:
			add("usr/share/doc/pawl/"+base+".gz", zipped(d.text), 0o644)
		}
	}
	if r.has("pawld") {
		for _, unit := range []string{"pawld.service", "pawld.socket"} {
			text, err := os.ReadFile(filepath.Join(r.root, "cmd", "pawld", "deploy", unit))
			if err != nil {
				return nil, err
			}
			add("usr/lib/systemd/system/"+unit, bytes.ReplaceAll(text, []byte("/usr/local/bin/"), []byte("/usr/bin/")), 0o644)
		}
		conf, err := os.ReadFile(filepath.Join(r.root, "cmd", "pawld", "deploy", "pawld.conf"))
		if err != nil {
			return nil, err
		}
		add(config, conf, 0o644)
		add("usr/lib/sysusers.d/pawl.conf", []byte("u pawl - \"pawl's daemon\"\n"), 0o644)
	}
	var sums, size = bytes.Buffer{}, 0
	for _, f := range files {
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.text), f.name)
		size += len(f.text)
	}
	control := fmt.Sprintf(`Package: pawl
Version: %s
Architecture: %s
Maintainer: pawl's maintainers <maintainers@pawl.invalid>
Installed-Size: %d
Section: admin
Priority: optional
Homepage: https://github.com/pawl-locks/pawl
Description: locks and leader election on etcd
 Runs commands under locks that report when they are lost, and leads elections.
 The daemon does that for programs in any language.
`, r.debVersion(), t.arch, size/1024+1)
	about := []file{{"control", []byte(control), 0o644}, {"md5sums", sums.Bytes(), 0o644}}
	if r.has("pawld") {
		about = append(about, file{"conffiles", []byte("/" + config + "\n"), 0o644},
			file{"postinst", []byte(postinst), 0o755}, file{"prerm", []byte(prerm), 0o755}, file{"postrm", []byte(postrm), 0o755})
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, part := range []file{
		{name: "debian-binary", text: []byte("2.0\n")},
		{name: "control.tar.gz", text: zipped(tarball(about, r.date, "./"))},
		{name: "data.tar.gz", text: zipped(tarball(files, r.date, "./"))},
	} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", part.name, r.date.Unix(), 0, 0, 0o100644, len(part.text))
		out.Write(part.text)
		if len(part.text)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}

// debVersion is the version as Debian orders it: v1.2.0-rc.1 comes before v1.2.0.
func (r *release) debVersion() string {
	return strings.Replace(strings.TrimPrefix(r.version, "v"), "-", "~", 1)
}

// config is what an administrator edits, and dpkg leaves alone.
const config = "etc/pawl/pawld.conf"

// postinst makes the user and makes the units known. It enables and starts nothing. A daemon that
// runs is restarted after an upgrade, and takes over what it held.
const postinst = `#!/bin/sh
set -e
if [ "$1" = configure ]; then
	if command -v systemd-sysusers >/dev/null; then systemd-sysusers pawl.conf || true; fi
	if [ -d /run/systemd/system ]; then
		systemctl daemon-reload || true
		if [ -n "$2" ]; then systemctl try-restart pawld.service || true; fi
	fi
fi
`

const prerm = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl disable --now pawld.socket pawld.service || true
fi
`

// postrm leaves the user, as Debian's packages do, because files may still belong to it.
const postrm = `#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
if [ "$1" = purge ]; then rm -rf /var/lib/pawld; fi
`
