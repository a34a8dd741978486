// Package policy decides which names an identity may use. Identities and names are compared as
// bytes, exactly.
package policy

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-locks/pawl/internal/keys"
)

// A Policy holds what each identity may use. The nil Policy allows all names to everybody on
// the Unix socket, and none to anybody else.
type Policy struct{ rules map[string]Rule }

// A Rule is what one identity may use.
type Rule struct {
	Names    []string // whole names, and prefixes that end in a slash
	Locks    int      // how many locks and waiters
	Sessions int      // how many sessions
}

// These are how many locks and waiters, and how many sessions, an identity may have if the policy
// does not say.
const (
	DefaultLocks    = 100
	DefaultSessions = 100
)

// Load reads a policy. It has one line for each identity, with the names that it may use, and
// locks=N and sessions=N for how many at a time. Empty lines and those that begin with # are
// ignored. A word with a space or with =, or one that begins with #, is a name only in double
// quotes.
//
//	uid:1000                   orders/ report
//	spiffe://example.org/cart  carts/ locks=2000
func Load(path string) (*Policy, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return nil, fmt.Errorf("policy: %s can be written by everybody (mode %v): make it 0644", path, info.Mode().Perm())
	}
	p := &Policy{rules: make(map[string]Rule)}
	var errs []error
	for i, line := range strings.Split(string(b), "\n") {
		if err := p.add(strings.TrimSpace(line)); err != nil {
			errs = append(errs, fmt.Errorf("policy: %s:%d: %w", path, i+1, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return p, nil
}

// invisible reports whether a character is invisible, or looks like a space without being one.
func invisible(r rune) bool { return !unicode.IsPrint(r) && r != '\t' && r != utf8.RuneError }

// limits are the limits that a line may set.
var limits = map[string]func(r *Rule) *int{
	"locks":    func(r *Rule) *int { return &r.Locks },
	"sessions": func(r *Rule) *int { return &r.Sessions },
}

// add adds the rule of one line.
func (p *Policy) add(line string) error {
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	if i := strings.IndexFunc(line, invisible); i >= 0 {
		r, _ := utf8.DecodeRuneInString(line[i:])
		return fmt.Errorf("%q: it has %U, which nobody sees; a name that has it stands in double quotes, with %s for it", line, r, strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
	}
	words, err := split(line)
	if err != nil {
		return err
	}
	identity, rule := words[0].text, Rule{Locks: DefaultLocks, Sessions: DefaultSessions}
	if err := checkIdentity(words[0]); err != nil {
		return err
	}
	if _, ok := p.rules[identity]; ok {
		return fmt.Errorf("identity %q stands on a line before", identity)
	}
	given := map[string]bool{}
	for _, w := range words[1:] {
		what, n, ok := strings.Cut(w.text, "=")
		switch {
		case w.quoted || !ok && !strings.HasPrefix(w.text, "#"):
			if err := checkName(w.text); err != nil {
				return err
			}
			rule.Names = append(rule.Names, w.text)
		case !ok:
			return fmt.Errorf("%q: a comment has a line of its own; a name that begins with # stands in double quotes", w.text)
		case limits[what] == nil:
			return fmt.Errorf("%q: want locks=NUMBER or sessions=NUMBER; a name with = stands in double quotes", w.text)
		default:
			if given[what] {
				return fmt.Errorf("%q: %s= is on the line twice", w.text, what)
			}
			given[what] = true
			limit := limits[what](&rule)
			if *limit, err = strconv.Atoi(n); err != nil || *limit <= 0 {
				return fmt.Errorf("%q: want %s= and a number above 0", w.text, what)
			}
		}
	}
	if len(rule.Names) == 0 {
		return fmt.Errorf("identity %q has no names", identity)
	}
	p.rules[identity] = rule
	return nil
}

// checkName reports what is wrong with a name, or a prefix.
func checkName(name string) error {
	switch {
	case name == "" || name == "/":
		return fmt.Errorf("%q is no name, and no prefix", name)
	case strings.ContainsAny(name, "*?"):
		return fmt.Errorf("%q: there are no patterns; a prefix ends in a slash", name)
	}
	if err := keys.CheckName(name, false); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	return nil
}

// checkIdentity reports what is wrong with the form of an identity, if pawld gives it to nobody. A URI
// that could be a misspelt kind, as gid:7, has to be quoted.
func checkIdentity(w word) error {
	identity := w.text
	kind, rest, _ := strings.Cut(identity, ":")
	switch {
	case kind == "uid":
		if n, err := strconv.ParseUint(rest, 10, 32); err != nil || strconv.FormatUint(n, 10) != rest {
			return fmt.Errorf("identity %q: want uid: and a number", identity)
		}
		return nil
	case kind == "token" && rest != "local":
		return fmt.Errorf("identity %q: want token:local", identity)
	case kind == "token", kind == "cn" && rest != "":
		return nil
	}
	switch u, err := url.Parse(identity); {
	case err != nil, u.Scheme == "", u.Scheme == "cn", u.Scheme != "urn" && !strings.HasPrefix(rest, "//") && !w.quoted, rest == "", rest == "//":
		return fmt.Errorf("identity %q: want uid:NUMBER, cn:NAME, token:local, or a certificate's URI; a URI without :// that is not of urn: stands in double quotes", identity)
	case u.String() != identity:
		return fmt.Errorf("identity %q: of such a certificate it is %q", identity, u)
	}
	return nil
}

// A word is a word of a line.
type word struct {
	text   string
	quoted bool
}

// split splits a line into words.
func split(line string) (words []word, err error) {
	for line = strings.TrimLeftFunc(line, unicode.IsSpace); line != ""; line = strings.TrimLeftFunc(line, unicode.IsSpace) {
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("a double quote without its end: %s", line)
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", quoted, err)
			}
			words, line = append(words, word{text, true}), line[len(quoted):]
			if line != strings.TrimLeftFunc(line, unicode.IsSpace) || line == "" {
				continue
			}
			return nil, fmt.Errorf("%s: want a space after it", quoted)
		}
		end := strings.IndexFunc(line, unicode.IsSpace)
		if end < 0 {
			end = len(line)
		}
		words, line = append(words, word{text: line[:end]}), line[end:]
	}
	return words, nil
}

// Allows reports whether an identity may use a name. local says that the request came over the Unix
// socket.
func (p *Policy) Allows(identity string, local bool, name string) bool {
	if p == nil {
		return local
	}
	for _, n := range p.rules[identity].Names {
		if n == name || strings.HasSuffix(n, "/") && strings.HasPrefix(name, n) {
			return true
		}
	}
	return false
}

// Knows reports whether an identity may use any name. local says that the request came over the
// Unix socket.
func (p *Policy) Knows(identity string, local bool) bool {
	if p == nil {
		return local
	}
	_, ok := p.rules[identity]
	return ok
}

// Within returns what an identity may list of the names that begin with prefix: whole names, and
// prefixes, none of which contains another. local says that the request came over the Unix socket.
func (p *Policy) Within(identity string, local bool, prefix string) (names, prefixes []string) {
	if p == nil {
		if local {
			prefixes = []string{prefix}
		}
		return nil, prefixes
	}
	rule := slices.Sorted(slices.Values(p.rules[identity].Names)) // a prefix comes before what it contains
	for _, n := range rule {
		contained := func(in string) bool { return strings.HasPrefix(n, in) }
		switch {
		case strings.HasSuffix(n, "/") && strings.HasPrefix(prefix, n):
			return nil, []string{prefix}
		case !strings.HasPrefix(n, prefix) || slices.ContainsFunc(prefixes, contained):
		case strings.HasSuffix(n, "/"):
			prefixes = append(prefixes, n)
		default:
			names = append(names, n)
		}
	}
	return slices.Compact(names), prefixes
}

// Fits reports limits of identities that are greater than pawld's limits. It does not report
// the default limits.
func (p *Policy) Fits(sessions, locks int) error {
	var errs []error
	for _, identity := range slices.Sorted(maps.Keys(p.rules)) {
		switch r := p.rules[identity]; {
		case r.Sessions > sessions && r.Sessions != DefaultSessions:
			errs = append(errs, fmt.Errorf("policy: identity %q has sessions=%d, more than --max-sessions, %d", identity, r.Sessions, sessions))
		case r.Locks > locks && r.Locks != DefaultLocks:
			errs = append(errs, fmt.Errorf("policy: identity %q has locks=%d, more than --max-locks, %d", identity, r.Locks, locks))
		}
	}
	return errors.Join(errs...)
}

// Locks is how many locks and waiters an identity may have.
func (p *Policy) Locks(identity string) int {
	if p != nil {
		if r, ok := p.rules[identity]; ok {
			return r.Locks
		}
	}
	return DefaultLocks
}

// Sessions is how many sessions an identity may have.
func (p *Policy) Sessions(identity string) int {
	if p != nil {
		if r, ok := p.rules[identity]; ok {
			return r.Sessions
		}
	}
	return DefaultSessions
}
