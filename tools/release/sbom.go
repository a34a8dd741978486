package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// A bom is a list of what a target's binaries consist of, in the format of CycloneDX 1.5.
type bom struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Ref        string      `json:"bom-ref,omitempty"`
	Type       string      `json:"type"`
	Name       string      `json:"name"`
	Version    string      `json:"version,omitempty"`
	PURL       string      `json:"purl,omitempty"`
	Hashes     []hash      `json:"hashes,omitempty"`
	Components []component `json:"components,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// bill returns the bill of materials of a target: for each binary its sum, and the modules that are in
// it, as the binary itself says, and the standard library.
func (r *release) bill(t target, binaries []file) ([]byte, error) {
	b := bom{
		Format: "CycloneDX", SpecVersion: "1.5", Version: 1,
		Metadata: metadata{
			Timestamp: r.date.Format(time.RFC3339),
			Component: component{Ref: "release", Type: "application", Name: "pawl " + t.String(), Version: r.version},
		},
	}
	for _, f := range binaries {
		info, err := buildinfo.Read(bytes.NewReader(f.text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		b.Components = append(b.Components, r.contents(f, info))
	}
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// contents is what is in one binary.
func (r *release) contents(f file, info *debug.BuildInfo) component {
	c := component{
		Ref: f.name, Type: "application", Name: f.name, Version: r.version,
		Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(f.text))}},
	}
	add := func(path, version string) {
		c.Components = append(c.Components, component{
			Ref: f.name + "/" + path + "@" + version, Type: "library", Name: path, Version: version, PURL: "pkg:golang/" + path + "@" + version,
		})
	}
	add("stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version == "" || m.Version == "(devel)" || strings.HasPrefix(m.Path, "github.com/pawl-locks/pawl") {
			m = &debug.Module{Path: m.Path, Version: r.version} // of this repository
		}
		add(m.Path, m.Version)
	}
	return c
}
