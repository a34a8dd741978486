package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"path"
	"time"
)

// A file is a file in an archive, with its path there.
type file struct {
	name string
	text []byte
	mode int64
}

// archive is the tarball of a target: commands, man pages, completions, licence.
func (r *release) archive(name string, binaries, docs []file) []byte {
	var files []file
	for _, f := range append(binaries[:len(binaries):len(binaries)], docs...) {
		f.name = name + "/" + f.name
		files = append(files, f)
	}
	return zipped(tarball(files, r.date, ""))
}

// tarball is a tar of files, with their directories, all of one date and owned by root. lead is put
// before each name.
func tarball(files []file, date time.Time, lead string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{".": true}
	var directory func(dir string)
	directory = func(dir string) {
		if made[dir] {
			return
		}
		made[dir] = true
		directory(path.Dir(dir))
		must(w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: lead + dir + "/", Mode: 0o755, ModTime: date, Format: tar.FormatGNU}))
	}
	for _, f := range files {
		directory(path.Dir(f.name))
		must(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: lead + f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: date, Format: tar.FormatGNU}))
		_, err := w.Write(f.text)
		must(err)
	}
	must(w.Close())
	return out.Bytes()
}

func zipped(text []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	must(err)
	_, err = w.Write(text)
	must(err)
	must(w.Close())
	return out.Bytes()
}

// must is for writes to memory, which fail only if this program is wrong.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
