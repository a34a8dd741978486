package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// image is a container image from scratch, with the commands and nothing else, as an OCI
// layout in a tar: skopeo, podman and crane read it.
func (r *release) image(t target, binaries []file) []byte {
	var blobs []file
	blob := func(text []byte) string {
		sum := fmt.Sprintf("%x", sha256.Sum256(text))
		blobs = append(blobs, file{"blobs/sha256/" + sum, text, 0o644})
		return "sha256:" + sum
	}
	plain := tarball(binaries, r.date, "")
	packed := zipped(plain)
	layer := descriptor{"application/vnd.oci.image.layer.v1.tar+gzip", blob(packed), len(packed), nil}
	config := encode(map[string]any{
		"created": r.date.Format(time.RFC3339), "architecture": t.arch, "os": t.os,
		"config": map[string]any{
			"Entrypoint": []string{"/pawl"},
			"User":       "65532:65532",
			"Labels":     map[string]string{"org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "Apache-2.0"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(plain))}},
	})
	manifest := encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": descriptor{"application/vnd.oci.image.config.v1+json", blob(config), len(config), nil},
		"layers": []descriptor{layer},
	})
	index := encode(map[string]any{
		"schemaVersion": 2,
		"manifests": []descriptor{{"application/vnd.oci.image.manifest.v1+json", blob(manifest), len(manifest),
			map[string]string{"org.opencontainers.image.ref.name": r.version}}},
	})
	return tarball(append([]file{
		{"oci-layout", encode(map[string]string{"imageLayoutVersion": "1.0.0"}), 0o644},
		{"index.json", index, 0o644},
	}, blobs...), r.date, "")
}

// A descriptor names a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	must(err)
	return text
}
