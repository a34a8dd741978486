package handlers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
	pb "github.com/pawl-locks/pawl/cmd/pawld/pawlv1"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/lock"
)

// wanted returns what a request wants to acquire, or what is wrong with it.
func wanted(m *pb.AcquireRequest, identity string) (service.Want, error) {
	w := service.Want{Names: m.Names, Value: m.Value, Try: m.Try, MaxHold: millis(m.MaxHoldMs), Stall: millis(m.StallMs), Limit: int(m.Limit)}
	modes, err := modesOf(m)
	if err != nil {
		return w, err
	}
	w.Modes = modes
	switch {
	case modes[0] != service.Semaphore && m.Limit != 0:
		return w, invalid("limit is %d, and is for SEMAPHORE alone", m.Limit)
	case modes[0] == service.Semaphore && (m.Limit < 1 || m.Limit > lock.MaxLimit):
		return w, invalid("limit is %d, want 1 to %d", m.Limit, lock.MaxLimit)
	case modes[0] == service.Semaphore && keys.CheckSemaphore(m.Names[0]) != nil:
		return w, invalid("names: %v", keys.CheckSemaphore(m.Names[0]))
	case m.TtlMs < 0:
		return w, invalid("ttl_ms is %d, want 0 or more", m.TtlMs)
	case m.MaxHoldMs < 0:
		return w, invalid("max_hold_ms is %d, want 0 or more", m.MaxHoldMs)
	case m.StallMs != 0 && m.StallMs < 1000:
		return w, invalid("stall_ms is %d, want 0 or at least 1000", m.StallMs)
	case modes[0] != service.Election && len(m.Value) > 0:
		return w, invalid("value is for ELECTION alone")
	case len(m.Owner) > maxOwner:
		return w, invalid("owner has %d bytes, want at most %d", len(m.Owner), maxOwner)
	}
	if err := checkValue(m.Value); err != nil {
		return w, err
	}
	for i, name := range m.Names {
		if err := keys.CheckName(name, false); err != nil {
			return w, invalid("names: %v", err)
		}
		if slices.Contains(m.Names[:i], name) {
			return w, invalid("names: %q is given twice", name)
		}
	}
	w.Owner = ownerOf(identity, m.Owner)
	return w, nil
}

// ownerOf is a key's owner: the identity, and then the client's text, quoted. An identity that could be
// read as two words, or as a quoted text, is quoted, too. Otherwise cn:worker would own what "cn:worker
// 2" holds.
func ownerOf(identity, text string) string {
	if quoted := strconv.Quote(identity); strings.Contains(identity, " ") || quoted != `"`+identity+`"` {
		identity = quoted
	}
	if text == "" {
		return identity
	}
	return identity + " " + strconv.Quote(text)
}

// owns reports whether an owner is of an identity.
func owns(identity, owner string) bool {
	own := ownerOf(identity, "")
	return owner == own || strings.HasPrefix(owner, own+" ")
}

// modesOf returns the modes of the names, one for each, or what is wrong with names and modes.
func modesOf(m *pb.AcquireRequest) ([]service.Mode, error) {
	switch {
	case len(m.Names) == 0:
		return nil, invalid("names: none given")
	case len(m.Names) > lock.MaxNames:
		return nil, invalid("names: %d given, want at most %d", len(m.Names), lock.MaxNames)
	case len(m.Modes) > 0 && m.Mode != pb.Mode_MODE_UNSPECIFIED:
		return nil, invalid("mode and modes are given, want one")
	case len(m.Modes) > 0 && len(m.Modes) != len(m.Names):
		return nil, invalid("modes: %d given, and %d names", len(m.Modes), len(m.Names))
	}
	modes := make([]service.Mode, len(m.Names))
	for i := range modes {
		mode := m.Mode
		if len(m.Modes) > 0 {
			mode = m.Modes[i]
		}
		switch mode {
		case pb.Mode_EXCLUSIVE:
			modes[i] = service.Exclusive
		case pb.Mode_SHARED:
			modes[i] = service.Shared
		case pb.Mode_ELECTION:
			modes[i] = service.Election
		case pb.Mode_SEMAPHORE:
			modes[i] = service.Semaphore
		default:
			return nil, invalid("mode is %v, want EXCLUSIVE, SHARED, SEMAPHORE or ELECTION", mode)
		}
		if len(modes) > 1 && modes[i] != service.Exclusive && modes[i] != service.Shared {
			return nil, invalid("mode is %v, and names are %d: a set's is EXCLUSIVE or SHARED", mode, len(modes))
		}
	}
	return modes, nil
}

const (
	maxOwner = 200
	maxValue = 16 << 10
)

func checkValue(value []byte) error {
	switch {
	case len(value) > maxValue:
		return invalid("value has %d bytes, want at most %d", len(value), maxValue)
	case keys.OfLock(value):
		return invalid("value begins with %s, as the keys of locks do", keys.MarkOf(value))
	}
	return nil
}

// checkName checks a name's form, and whether the caller may use it.
func (c *calls) checkName(ctx context.Context, field, name string) error {
	if err := keys.CheckName(name, false); err != nil {
		return invalid("%s: %v", field, err)
	}
	return c.may(ctx, name)
}

func (c *calls) may(ctx context.Context, name string) error {
	who := callerOf(ctx)
	if c.s.Policy.Allows(who.identity, who.local, name) {
		return nil
	}
	return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("the policy gives %q no name %q", who.identity, name))
}

// checkID checks the form of an ID that a client chooses: 16 bytes in lower-case hexadecimal.
// The error does not repeat the value, which is a secret, or may contain one.
func checkID(field, id string) error {
	ok := len(id) == 32 && strings.Trim(id, "0123456789abcdef") == ""
	if !ok {
		return invalid("%s has %d characters, want 32 hexadecimal digits in lower case: 16 random bytes", field, len(id))
	}
	if strings.Trim(id, id[:1]) == "" {
		return invalid("%s is not random: it is one digit, again and again", field)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}
