package lease

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Handle is what another process needs to take over a detached session: the
// lease, the cluster it lives on, its session key as it was last written, how
// many attempts were made under it, and those whose outcome was not settled. It
// is comparable, holds no secret, and works once. The zero Handle means no
// session.
type Handle struct {
	lease       int64
	cluster     uint64
	ttl         time.Duration // as granted
	key         string        // the session key
	create, mod int64         // its revisions
	next        int64         // the next attempt's number
	unsettled   string        // keys of the attempts to be undone, each behind its length
}

// handleText is the JSON inside a Handle's text.
type handleText struct {
	Lease     int64  `json:"lease"`
	Cluster   uint64 `json:"cluster"`
	Seconds   int64  `json:"ttl"`
	Key       []byte `json:"key"`
	Create    int64  `json:"create"`
	Mod       int64  `json:"mod"`
	Next      int64  `json:"next"`
	Unsettled []byte `json:"unsettled,omitempty"`
}

// handlePrefix names the form of a Handle's text.
const handlePrefix = "pawl1."

// MarshalText writes h as one word of printable ASCII, fit for an environment
// variable or a file. The zero Handle is the empty text.
func (h Handle) MarshalText() ([]byte, error) {
	if h == (Handle{}) {
		return []byte{}, nil
	}
	b, err := json.Marshal(handleText{h.lease, h.cluster, int64(h.ttl / time.Second), []byte(h.key), h.create, h.mod, h.next, []byte(h.unsettled)})
	if err != nil {
		return nil, fmt.Errorf("lease: marshal handle: %w", err)
	}
	return []byte(handlePrefix + base64.RawURLEncoding.EncodeToString(b)), nil
}

// UnmarshalText reads what MarshalText wrote; h is unchanged on an error.
func (h *Handle) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*h = Handle{}
		return nil
	}
	body, ok := strings.CutPrefix(string(text), handlePrefix)
	if !ok {
		return fmt.Errorf("lease: handle: want a text that begins with %q", handlePrefix)
	}
	b, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return fmt.Errorf("lease: handle: %w", err)
	}
	var t handleText
	if err := json.Unmarshal(b, &t); err != nil {
		return fmt.Errorf("lease: handle: %w", err)
	}
	if err := t.check(); err != nil {
		return fmt.Errorf("lease: handle: %w", err)
	}
	*h = Handle{t.Lease, t.Cluster, time.Duration(t.Seconds) * time.Second, string(t.Key), t.Create, t.Mod, t.Next, string(t.Unsettled)}
	return nil
}

// maxSeconds bounds a TTL so that its Duration does not overflow.
const maxSeconds = 9_000_000_000

func (t handleText) check() error {
	switch {
	case t.Lease <= 0, t.Cluster == 0, len(t.Key) == 0, t.Create <= 0, t.Mod < t.Create, t.Next <= 0, t.Seconds <= 0, t.Seconds > maxSeconds:
		return errors.New("a field is missing or out of bounds")
	}
	if _, err := splitKeys(string(t.Unsettled)); err != nil {
		return err
	}
	return nil
}

// joinKeys makes one comparable string of keys.
func joinKeys(keys []string) string {
	var b []byte
	for _, k := range keys {
		b = binary.AppendUvarint(b, uint64(len(k)))
		b = append(b, k...)
	}
	return string(b)
}

// splitKeys is the inverse of joinKeys.
func splitKeys(s string) (keys []string, err error) {
	for s != "" {
		n, w := binary.Uvarint([]byte(s))
		if w <= 0 || n == 0 || n > uint64(len(s)-w) {
			return nil, errors.New("the unsettled attempts are garbled")
		}
		keys = append(keys, s[w:w+int(n)])
		s = s[w+int(n):]
	}
	return keys, nil
}

// String names the lease, for logs.
func (h Handle) String() string {
	if h == (Handle{}) {
		return "no session"
	}
	return fmt.Sprintf("session of lease %x", h.lease)
}
