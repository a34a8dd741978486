package s3blob

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-locks/pawl/fencing"
)

// Verbatim uses the name as the key. It refuses, with an error matching fencing.ErrNoResource, names
// that some clients and proxies would change: names that are not UTF-8, that have control characters, or
// that have a part between slashes which is empty, "." or "..".
func Verbatim(name string) (string, error) {
	bad := !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl)
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == "" || part == "." || part == ".."
	}
	if bad {
		return "", fmt.Errorf("s3blob: %w that can be a key as it is: %.64q; see Store.Key", fencing.ErrNoResource, name)
	}
	return name, nil
}

// maxFlat leaves room for suffixes in a file name of 255 bytes.
const maxFlat = 200

// Flat makes a key without slashes of any name: letters, digits, - and _ stay, all else becomes
// %xx. A long one ends in the name's SHA-256. It is for names that Verbatim refuses, and for
// servers that keep objects as files.
func Flat(name string) (string, error) {
	var b []byte
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02x", c)
		}
	}
	if len(b) <= maxFlat {
		return string(b), nil
	}
	sum := sha256.Sum256([]byte(name))
	return string(b[:maxFlat-1-2*len(sum)]) + "~" + hex.EncodeToString(sum[:]), nil
}
