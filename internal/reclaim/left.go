package reclaim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/pawl-locks/pawl/internal/session"
)

// Most is how many files a process publishes at most at a time.
const Most = 256

// ErrSystem is the error of Open on a system on which nothing proves a process's death.
var ErrSystem = errors.New("a killed process's lease can be reclaimed on Linux only")

// ErrAlive is the error of Claim for a file that is locked: somebody may believe, or reclaims it.
var ErrAlive = errors.New("it is locked")

// A Left is what a session leaves for the case of its process's death.
type Left struct {
	session.Remains
	Key       string        // the session key
	LockDelay time.Duration // the session's
	Owner     string        // the session's, for display
}

// name is the name of the file.
func (l Left) name() string { return fmt.Sprintf("%016x-%d", uint64(l.Lease), l.Mod) }

// A place is what tells a file from its copies.
type place struct {
	Boot   string `json:"boot"`
	UID    uint32 `json:"uid"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Name   string `json:"name"`
}

// version is that of the format.
const version = 1

// content is a file's content.
type content struct {
	Pawl      int           `json:"pawl"`
	Cluster   hex           `json:"cluster"`
	Lease     hex           `json:"lease"`
	Key       []byte        `json:"key"`
	Create    int64         `json:"create"`
	Mod       int64         `json:"mod"`
	LockDelay time.Duration `json:"lockDelay"`
	Owner     string        `json:"owner"`
	place
}

// hex is a number that is written as etcdctl shows it.
type hex uint64

func (h hex) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(h), 16), nil }

func (h *hex) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*h = hex(n)
	return err
}

// maxSize bounds a file.
const maxSize = 16 << 10

// encode returns the content of l's file at p.
func encode(l Left, p place) ([]byte, error) {
	b, err := json.Marshal(content{
		version, hex(l.Cluster), hex(l.Lease), []byte(l.Key), l.Create, l.Mod, l.LockDelay, l.Owner, p,
	})
	if err == nil && len(b) >= maxSize {
		err = fmt.Errorf("it has %d bytes, want at most %d", len(b)+1, maxSize)
	}
	return append(b, '\n'), err
}

// decode is the inverse of encode. It refuses everything that encode does not write.
func decode(text []byte) (l Left, p place, err error) {
	var c content
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return l, p, fmt.Errorf("its content: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return l, p, errors.New("its content: more than one object")
	}
	switch {
	case c.Pawl != version:
		err = fmt.Errorf("version %d, want %d", c.Pawl, version)
	case c.Lease == 0 || int64(c.Lease) < 0 || c.Cluster == 0 || len(c.Key) == 0:
		err = errors.New("it names no lease")
	case c.Create <= 0 || c.Mod < c.Create || c.LockDelay < 0:
		err = errors.New("no session has such revisions")
	}
	l = Left{session.Remains{Cluster: uint64(c.Cluster), Lease: int64(c.Lease), Create: c.Create, Mod: c.Mod}, string(c.Key), c.LockDelay, c.Owner}
	if err == nil && c.Name != l.name() {
		err = fmt.Errorf("it is of %q, and names %q", l.name(), c.Name)
	}
	if err != nil {
		return Left{}, place{}, fmt.Errorf("its content: %w", err)
	}
	return l, c.place, nil
}
