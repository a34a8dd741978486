package fencetest

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
)

// memory is the model of a guarded store: a Gate and the values, under one mutex. Each fault breaks one thing.
type memory struct {
	fault string

	mu     sync.Mutex
	gate   *fencing.Gate
	values map[string]string
}

func newMemory(fault string) *memory {
	return &memory{fault: fault, gate: &fencing.Gate{}, values: map[string]string{}}
}

func (m *memory) name(resource string) string {
	switch m.fault {
	case "folds case":
		return strings.ToLower(resource)
	case "cuts names":
		return resource[:min(len(resource), 255)]
	}
	return resource
}

func (m *memory) admit(resource string, t fencing.Token) error {
	if m.fault == "admits all" {
		return fencing.Check(resource, t)
	}
	if m.fault == "takes 0" && t == 0 {
		return nil
	}
	err := m.gate.Admit(m.name(resource), t)
	var stale *fencing.StaleError
	if errors.As(err, &stale) {
		if m.fault == "tells no highest" {
			return errors.New("stale")
		}
		stale.Resource = resource
	}
	if m.fault == "refuses equals" && err == nil {
		return m.gate.Admit(m.name(resource), t+1)
	}
	return err
}

func (m *memory) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	if ctx.Err() != nil && m.fault != "ignores contexts" {
		return "", ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == "reads do not register" {
		var probe fencing.Gate
		_ = probe.Restore(m.gate.Snapshot())
		return m.values[m.name(resource)], probe.Admit(resource, t)
	}
	if err := m.admit(resource, t); err != nil {
		return "", err
	}
	return m.values[m.name(resource)], nil
}

func (m *memory) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	if ctx.Err() != nil && m.fault != "ignores contexts" {
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == "writes first" {
		m.values[m.name(resource)] = value
	}
	if err := m.admit(resource, t); err != nil {
		return err
	}
	if m.fault == "asks first, writes later" {
		m.mu.Unlock()
		runtime.Gosched()
		m.mu.Lock()
	}
	m.values[m.name(resource)] = value
	return nil
}

func (m *memory) restart() *memory {
	again := newMemory(m.fault)
	again.values = maps.Clone(m.values)
	if m.fault != "forgets at restart" {
		if err := again.gate.Restore(m.gate.Snapshot()); err != nil {
			panic(err)
		}
	}
	return again
}

func (m *memory) abort(resource string, t fencing.Token, value string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == "keeps aborted tokens" {
		return m.admit(resource, t)
	}
	var tried fencing.Gate
	if err := tried.Restore(m.gate.Snapshot()); err != nil {
		return err
	}
	return tried.Admit(resource, t)
}

func suiteOf(fault string) Suite {
	return Suite{
		Open: func(*testing.T) Store { return newMemory(fault) },
		Peek: func(_ context.Context, s Store, resource string) (string, error) {
			m := s.(*memory)
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.values[m.name(resource)], nil
		},
		Restart: func(_ *testing.T, s Store) Store { return s.(*memory).restart() },
		Abort: func(_ context.Context, s Store, resource string, t fencing.Token, value string) error {
			return s.(*memory).abort(resource, t, value)
		},
		LoseAnswer: func(ctx context.Context, s Store, resource string, t fencing.Token, value string) error {
			if err := s.Write(ctx, resource, t, value); err != nil {
				return err
			}
			if fault == "says not applied" {
				return &fencing.StaleError{Resource: resource, Got: t, Highest: t + 1}
			}
			return errors.New("connection reset")
		},
		Rounds: 200,
	}
}

func TestAGateUnderTheMutexOfItsStatePasses(t *testing.T) { suiteOf("").Run(t) }

const faultVariable = "FENCETEST_FAULT"

// TestBrokenGuard is run by TestSuiteFindsBrokenGuards, in a process of its own.
func TestBrokenGuard(t *testing.T) {
	fault := os.Getenv(faultVariable)
	if fault == "" {
		t.Skip("runs only as a child of TestSuiteFindsBrokenGuards")
	}
	suiteOf(fault).Run(t)
}

func TestSuiteFindsBrokenGuards(t *testing.T) {
	found := map[string]string{
		"admits all":               "StaleTokensAreRefusedAndWriteNothing",
		"writes first":             "StaleTokensAreRefusedAndWriteNothing",
		"tells no highest":         "StaleTokensAreRefusedAndWriteNothing",
		"refuses equals":           "EqualTokensAreAdmitted",
		"reads do not register":    "ReadsRegisterTheirToken",
		"folds case":               "ResourcesAreKeptApart",
		"cuts names":               "ResourcesAreKeptApart",
		"takes 0":                  "NoTokenAndNoResourceAreRefused",
		"asks first, writes later": "RacingHoldersAreAdmittedInOrder",
		"forgets at restart":       "RefusalsSurviveARestart",
		"keeps aborted tokens":     "AbortedWritesLeaveNoTrace",
		"says not applied":         "WritesWhoseAnswerWasLostCanBeRepeated",
		"ignores contexts":         "DoneContextsEndInAnError",
	}
	for _, fault := range slices.Sorted(maps.Keys(found)) {
		t.Run(fault, func(t *testing.T) {
			child := exec.Command(os.Args[0], "-test.run=^TestBrokenGuard$/^"+found[fault]+"$", "-test.v")
			child.Env = append(os.Environ(), faultVariable+"="+fault)
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the suite passed a broken guard")
			assert.Contains(t, string(out), "--- FAIL: TestBrokenGuard/"+found[fault])
		})
	}
}

func TestSuiteSkipsWhatAStoreDoesNotHave(t *testing.T) {
	s := suiteOf("")
	s.Restart, s.Abort, s.LoseAnswer, s.Writers, s.Rounds = nil, nil, nil, 2, 2
	s.Run(t)
}
