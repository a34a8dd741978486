package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// The bill of materials has the sum of each binary, and the modules that the binary itself names. The
// binary here is this test.
func TestTheBillOfMaterialsNamesWhatIsInABinary(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	r := &release{version: "v1.2.3", date: time.Unix(1e9, 0).UTC()}
	text, err := r.bill(target{"linux", "arm64"}, []file{{"pawl", binary, 0o755}})
	if err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || b.Metadata.Timestamp != "2001-09-09T01:46:40Z" || len(b.Components) != 1 {
		t.Fatalf("%s", text)
	}
	c := b.Components[0]
	if want := (hash{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(binary))}); c.Name != "pawl" || c.Version != "v1.2.3" || !slices.Equal(c.Hashes, []hash{want}) {
		t.Errorf("%+v", c)
	}
	if !slices.ContainsFunc(c.Components, func(c component) bool { return c.Name == "stdlib" && c.Version != "" }) {
		t.Errorf("no standard library in %s", text)
	}
	refs := map[string]bool{}
	for _, c := range append(append([]component{b.Metadata.Component}, b.Components...), c.Components...) {
		if refs[c.Ref] {
			t.Errorf("two components are %q", c.Ref)
		}
		refs[c.Ref] = true
	}
	if _, err := r.bill(target{"linux", "arm64"}, []file{{"pawl", []byte("#!/bin/sh\n"), 0o755}}); err == nil {
		t.Error("a bill of what is no binary of Go")
	}
}
