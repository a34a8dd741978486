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

// The first lines. A snapshot from before shared tokens has one number for both registers.
const (
	snapshotHead = "pawl gate 2"
	oldHead      = "pawl gate 1"
)

// Snapshot returns what the gate must not forget over a restart: every token admitted before the
// call, and no token that was not admitted before it returned. Save it in one step with the state
// that the gate guards; a state that is newer than its gate can be written to by a holder that was
// refused before.
//
// It is text that people can read too: a line with the floor, a line for each resource, sorted, and a
// checksum. Each line has the highest token, then the highest exclusive one. New resources wait while
// the snapshot is taken, known ones do not. It does not change the gate.
func (g *Gate) Snapshot() []byte {
	var lines []string
	g.mu.Lock()
	floor := g.floor
	for _, r := range g.ring {
		lines = append(lines, strconv.Quote(r.resource)+" "+r.load().String()+"\n")
	}
	g.mu.Unlock()
	slices.Sort(lines)

	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nfloor %v\n", snapshotHead, floor)
	for _, l := range lines {
		b.WriteString(l)
	}
	fmt.Fprintf(&b, "sum %08x\n", crc32.ChecksumIEEE(b.Bytes()))
	return b.Bytes()
}

// Restore adds what a snapshot says. Afterwards the gate refuses what it refused before, and what the
// gate of the snapshot refused. It never lowers anything, so it may be called at any time, and with
// several snapshots. A snapshot of more resources than the Limit is restored by the rule for what is
// forgotten. An error matches ErrSnapshot if the text was cut, was changed, or is something else;
// nothing was added then.
func (g *Gate) Restore(snapshot []byte) error {
	floor, seen, err := parseSnapshot(string(snapshot))
	if err != nil {
		return fmt.Errorf("fencing: restore: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.floor
	g.floor = before.max(floor)
	for _, r := range g.ring {
		// Resources that the snapshot does not name were compared with the snapshot's floor.
		if _, named := seen[r.resource]; !named {
			r.raise(floor)
		}
	}
	for resource, p := range seen {
		if v, ok := g.known.Load(resource); ok {
			v.(*registers).raise(p)
			delete(seen, resource)
		}
	}
	// This comes last, because each resource that is added may end one that was known.
	// Resources that this gate did not know were compared with its own floor; the snapshot's
	// floor does not apply to resources that the snapshot names.
	for resource, p := range seen {
		g.remember(newRegisters(resource, before.max(p)))
	}
	return nil
}

func parseSnapshot(s string) (floor pair, seen map[string]pair, err error) {
	bad := func(why string, a ...any) (pair, map[string]pair, error) {
		return pair{}, nil, fmt.Errorf("%w: "+why, append([]any{ErrSnapshot}, a...)...)
	}
	cut := strings.LastIndex(strings.TrimSuffix(s, "\n"), "\n") + 1
	body, sum := s[:cut], s[cut:]
	if sum != fmt.Sprintf("sum %08x\n", crc32.ChecksumIEEE([]byte(body))) {
		return bad("its checksum is missing or wrong")
	}
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	if len(lines) < 2 || lines[0] != snapshotHead && lines[0] != oldHead {
		return bad("it begins with %q", lines[0])
	}
	if lines[0] == oldHead {
		double(lines[1:])
	}
	name, floor, ok := parseLine(lines[1])
	if !ok || name != "floor" {
		return bad("line 2 is %q", lines[1])
	}
	seen = make(map[string]pair, len(lines))
	for i, l := range lines[2:] {
		resource, p, ok := parseResource(l)
		if _, twice := seen[resource]; twice || !ok {
			return bad("line %d is %q", i+3, l)
		}
		seen[resource] = p
	}
	return floor, seen, nil
}

// double converts lines with one number to lines with two.
func double(lines []string) {
	for i, l := range lines {
		if space := strings.LastIndexByte(l, ' '); space >= 0 {
			lines[i] += l[space:]
		}
	}
}

// String is the pair as a snapshot has it.
func (p pair) String() string { return fmt.Sprintf("%d %d", int64(p.highest), int64(p.exclusive)) }

// parseResource parses a resource and its pair.
func parseResource(l string) (resource string, p pair, ok bool) {
	quoted, p, ok := parseLine(l)
	resource, err := strconv.Unquote(quoted)
	return resource, p, ok && err == nil && Check(resource, p.highest) == nil
}

// parseLine parses a name and a pair.
func parseLine(l string) (name string, p pair, ok bool) {
	fields := strings.Split(l, " ")
	n := len(fields) - 2
	if n < 1 {
		return "", pair{}, false
	}
	highest, err1 := strconv.ParseInt(fields[n], 10, 64)
	exclusive, err2 := strconv.ParseInt(fields[n+1], 10, 64)
	p = pair{Token(exclusive), Token(highest)}
	return strings.Join(fields[:n], " "), p, err1 == nil && err2 == nil && 0 <= exclusive && exclusive <= highest
}
