package queue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxName is the longest name, in bytes: one that is escaped to three times its
// length still fits into an etcd request many times over.
const maxName = 1024

// A Line is where those who want one name queue.
type Line struct {
	Name   string // as given
	Prefix string // of its keys, namespace included; ends in a slash

	EtcdLayout bool // the name was taken verbatim
	Election   bool // what an observer is told: campaigns and terms, or else locks
}

// NewLine checks name and makes its line. With etcdLayout the name is taken
// verbatim, as clientv3's concurrency package takes it; otherwise it is escaped
// so that no name's keys lie among another's.
func NewLine(namespace, name string, etcdLayout bool) (Line, error) {
	switch {
	case name == "":
		return Line{}, errors.New("empty name")
	case len(name) > maxName:
		return Line{}, fmt.Errorf("the name has %d bytes, want at most %d", len(name), maxName)
	case !etcdLayout:
		return Line{Name: name, Prefix: namespace + escape(name) + "/"}, nil
	}
	prefix := name + "/"
	if strings.HasPrefix(prefix, sessions) || strings.HasPrefix(sessions, prefix) {
		return Line{}, fmt.Errorf("the name %q in etcd's layout would contain the sessions' own keys, below %q", name, sessions)
	}
	return Line{Name: name, Prefix: namespace + prefix, EtcdLayout: true}, nil
}

// Quote is a name for an error's text, in quotes, and shortened where it is longer
// than a name can be.
func Quote(name string) string {
	if len(name) > maxName {
		return strconv.Quote(name[:64]) + "…"
	}
	return strconv.Quote(name)
}

// sessions is where sessions keep their own keys, behind the namespace.
const sessions = "//pawl/"

// slashes escapes what an escaped name may not contain.
var slashes = strings.NewReplacer("%", "%25", "/", "%2F")

// escape keeps a name without a slash as it is; one with a slash becomes a
// slash and the name escaped. No escaped name but the shape "/<no slash>"
// contains a slash, so none is a directory of another, and none begins with two.
func escape(name string) string {
	if !strings.Contains(name, "/") {
		return name
	}
	return "/" + slashes.Replace(name)
}

// unescape undoes escape.
func unescape(escaped string) (name string, ok bool) {
	name = strings.TrimPrefix(escaped, "/")
	if name != escaped {
		name = unslashes.Replace(name)
	}
	return name, escape(name) == escaped
}

var unslashes = strings.NewReplacer("%2F", "/", "%25", "%")

// LineOf is NewLine undone: the line whose keys have this prefix. etcdLayout says
// that it can only be one of etcd's layout; a name without a slash has the same
// line in both. ok is false where no name has such keys, as among the sessions'
// own.
func LineOf(namespace, prefix string) (l Line, etcdLayout, ok bool) {
	rest, ok := strings.CutPrefix(prefix, namespace)
	if !ok || strings.Contains(rest, sessions) {
		return Line{}, false, false
	}
	verbatim, ok := strings.CutSuffix(rest, "/")
	if !ok {
		return Line{}, false, false
	}
	name, pawls := unescape(verbatim)
	if !pawls {
		name = verbatim
	}
	l, err := NewLine(namespace, name, !pawls)
	return l, !pawls, err == nil
}

// EscapePrefix is what the lines of all names that begin with begin and hold a
// slash have in common, behind the namespace.
func EscapePrefix(begin string) string { return "/" + slashes.Replace(begin) }

// attempt takes a key apart whose form is pawl's: <lease in hex>-<n> under the
// line.
func (l Line) attempt(key string) (lease, n int64, ok bool) {
	rest, ok := strings.CutPrefix(key, l.Prefix)
	if !ok {
		return 0, 0, false
	}
	return ParseAttempt(rest)
}

// ParseAttempt takes the last part of a key apart whose form is pawl's.
func ParseAttempt(part string) (lease, n int64, ok bool) {
	hex, number, ok := strings.Cut(part, "-")
	if !ok {
		return 0, 0, false
	}
	lease, err := strconv.ParseInt(hex, 16, 64)
	if err != nil || lease <= 0 || strconv.FormatInt(lease, 16) != hex {
		return 0, 0, false
	}
	n, err = strconv.ParseInt(number, 10, 64)
	return lease, n, err == nil && n > 0 && strconv.FormatInt(n, 10) == number
}

// owner is the lease of a key under the line whose form is pawl's.
func (l Line) owner(key string) (lease int64, ok bool) {
	lease, _, ok = l.attempt(key)
	return lease, ok
}
