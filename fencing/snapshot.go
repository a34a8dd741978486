package fencing

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

// ErrSnapshot is matched by the error of Restore when what it was given is not a whole snapshot.
var ErrSnapshot = errors.New("not a snapshot of a gate")

const snapshotHead = "pawl gate 1"

// Snapshot returns what the gate must not forget over a restart: every token admitted before the call, and no token that was not admitted before
// it returned. Save it in one step with the state that the gate guards; a state that is newer than its gate can be
// written to by a holder that was refused before.
//
// It is text, for people too: a line with the floor, a line for each resource, sorted, and a checksum. New resources wait while it is taken,
// known ones do not. It does not change the gate.
func (g *Gate) Snapshot() []byte {
	var lines []string
	g.mu.Lock()
	floor := g.floor
	for _, h := range g.ring {
		lines = append(lines, strconv.Quote(h.resource)+" "+strconv.FormatInt(h.token.Load(), 10)+"\n")
	}
	g.mu.Unlock()
	slices.Sort(lines)

	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nfloor %d\n", snapshotHead, int64(floor))
	for _, l := range lines {
		b.WriteString(l)
	}
	fmt.Fprintf(&b, "sum %08x\n", crc32.ChecksumIEEE(b.Bytes()))
	return b.Bytes()
}

// Restore adds what a snapshot says: afterwards the gate refuses what it refused before, and what the gate of the snapshot refused. It
// never lowers anything, so it may be called at any time, and with several snapshots. A snapshot of more resources than
// the Limit is restored by the rule for what is forgotten. An error matches ErrSnapshot: it was cut, changed, or is something else, and nothing
// was added.
func (g *Gate) Restore(snapshot []byte) error {
	floor, seen, err := parseSnapshot(string(snapshot))
	if err != nil {
		return fmt.Errorf("fencing: restore: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.floor
	g.floor = max(before, floor)
	for _, h := range g.ring {
		// What the snapshot does not name, its gate refused below its floor.
		if _, named := seen[h.resource]; !named {
			h.raise(floor)
		}
	}
	for resource, t := range seen {
		if v, ok := g.known.Load(resource); ok {
			v.(*highest).raise(t)
			delete(seen, resource)
		}
	}
	// Only now, as each that is added may end one that was known. What this gate did not know, it refused below its own floor; the snapshot's floor
	// says nothing of what the snapshot names.
	for resource, t := range seen {
		g.remember(resource, max(t, before))
	}
	return nil
}

func parseSnapshot(s string) (floor Token, seen map[string]Token, err error) {
	bad := func(why string, a ...any) (Token, map[string]Token, error) {
		return 0, nil, fmt.Errorf("%w: "+why, append([]any{ErrSnapshot}, a...)...)
	}
	cut := strings.LastIndex(strings.TrimSuffix(s, "\n"), "\n") + 1
	body, sum := s[:cut], s[cut:]
	if sum != fmt.Sprintf("sum %08x\n", crc32.ChecksumIEEE([]byte(body))) {
		return bad("its checksum is missing or wrong")
	}
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	if len(lines) < 2 || lines[0] != snapshotHead {
		return bad("it begins with %q", lines[0])
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "floor "), 10, 64)
	if err != nil || n < 0 {
		return bad("line 2 is %q", lines[1])
	}
	seen = make(map[string]Token, len(lines))
	for i, l := range lines[2:] {
		resource, t, ok := parseLine(l)
		if _, twice := seen[resource]; twice || !ok {
			return bad("line %d is %q", i+3, l)
		}
		seen[resource] = t
	}
	return Token(n), seen, nil
}

func parseLine(l string) (resource string, t Token, ok bool) {
	space := strings.LastIndexByte(l, ' ')
	if space < 0 {
		return "", 0, false
	}
	resource, err := strconv.Unquote(l[:space])
	if err != nil {
		return "", 0, false
	}
	n, err := strconv.ParseInt(l[space+1:], 10, 64)
	return resource, Token(n), err == nil && Check(resource, Token(n)) == nil
}
