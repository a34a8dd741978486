package s3blob

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/blobfence"
)

// Names of user metadata. S3 gives them back in lower case.
const (
	metaToken   = "pawl-token"
	metaAhead   = "pawl-ahead" // absent means 0
	metaNonce   = "pawl-nonce"
	metaAbsent  = "pawl-absent"
	metaTrailer = "pawl-trailer"
)

func formatMeta(m blobfence.Meta) map[string]string {
	data := map[string]string{
		metaToken:   strconv.FormatInt(int64(m.Token), 10),
		metaNonce:   m.Nonce,
		metaAbsent:  strconv.FormatBool(m.Absent),
		metaTrailer: strconv.Itoa(trailerLen),
	}
	if m.Ahead > 0 {
		data[metaAhead] = strconv.FormatInt(int64(m.Ahead), 10)
	}
	return data
}

// parseMeta returns what formatMeta was given. It returns false for an object that was not written by
// this package.
func parseMeta(data map[string]string) (m blobfence.Meta, ours bool, err error) {
	if data[metaToken] == "" {
		return blobfence.Meta{}, false, nil
	}
	n, err1 := strconv.ParseInt(data[metaToken], 10, 64)
	ahead, err2 := strconv.ParseInt(cmp.Or(data[metaAhead], "0"), 10, 64)
	if err1 != nil || err2 != nil || n <= 0 || ahead < 0 || ahead > n || data[metaTrailer] != strconv.Itoa(trailerLen) {
		return blobfence.Meta{}, false, fmt.Errorf("s3blob: metadata not understood: %q", data)
	}
	return blobfence.Meta{Token: fencing.Token(n), Ahead: fencing.Token(ahead), Nonce: data[metaNonce], Absent: data[metaAbsent] == "true"}, true, nil
}

const trailerLen = 64

// trailer spells a hash of the nonce in spaces and tabs, so that each write has another body and
// with it another ETag.
func trailer(nonce string) []byte {
	h := fnv.New64a()
	h.Write([]byte(nonce))
	bits := h.Sum64()
	t := make([]byte, trailerLen)
	for i := range t {
		t[i] = " \t"[bits>>i&1]
	}
	return t
}

func addTrailer(body []byte, nonce string) []byte {
	return append(bytes.Clone(body), trailer(nonce)...)
}

func cutTrailer(body []byte, nonce string) ([]byte, error) {
	cut, ok := bytes.CutSuffix(body, trailer(nonce))
	if !ok {
		return nil, errTorn // the body of another version than the metadata
	}
	return cut, nil
}
