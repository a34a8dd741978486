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

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// memory is the model of an instance of a guarded store: a Gate and the values, under one mutex.
// Each fault breaks one thing.
type memory struct {
	fault string
	*kept
}

// kept is what the instances have in common.
type kept struct {
	mu     sync.Mutex
	gate   *fencing.Gate
	known  map[string]bool
	values map[string]string
}

func newMemory(fault string) *memory {
	return &memory{fault, &kept{gate: &fencing.Gate{}, known: map[string]bool{}, values: map[string]string{}}}
}

// join returns another instance.
func (m *memory) join() Store {
	if m.fault == "keeps tokens in each instance" {
		return &apart{m, &fencing.Gate{}}
	}
	return m
}

// apart is an instance with a separate gate.
type apart struct {
	*memory
	own *fencing.Gate
}

func (a *apart) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	if err := a.own.Admit(resource, t); err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.values[resource], ctx.Err()
}

func (a *apart) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	if err := errors.Join(ctx.Err(), a.own.Admit(resource, t)); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.values[resource] = value
	return nil
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
	if m.fault == "forgets after 40 resources" && !m.known[resource] {
		if len(m.known) == 40 {
			m.gate, m.known = &fencing.Gate{}, map[string]bool{}
		}
		m.known[resource] = true
	}
	err := m.gate.Admit(m.name(resource), t)
	var stale *fencing.StaleError
	if errors.As(err, &stale) {
		if m.fault == "reports no highest" {
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
		return m.values[m.name(resource)], m.copied().Admit(resource, t)
	}
	early := m.values[m.name(resource)]
	if m.fault == "registers after its first read" {
		m.mu.Unlock()
		runtime.Gosched()
		m.mu.Lock()
	}
	if err := m.admit(resource, t); err != nil {
		return "", err
	}
	if m.fault == "registers after its first read" {
		return early, nil
	}
	return m.values[m.name(resource)], nil
}

func (m *memory) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	gate := m.gate
	if m.fault == "one register, of exclusive tokens" {
		gate = m.copied()
	}
	err := gate.AdmitShared(m.name(resource), t)
	if m.fault == "one register, of either mode" {
		err = m.gate.Admit(m.name(resource), t)
	}
	return m.values[m.name(resource)], err
}

// copied is a gate that decides as the store's does, and raises nothing there.
func (m *memory) copied() *fencing.Gate {
	var g fencing.Gate
	if err := g.Restore(m.gate.Snapshot()); err != nil {
		panic(err)
	}
	return &g
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
	return m.copied().Admit(resource, t)
}

func of(s Store) *memory {
	if a, ok := s.(*apart); ok {
		return a.memory
	}
	return s.(*memory)
}

func suiteOf(fault string) Suite {
	return Suite{
		Open: func(*testing.T) Store { return newMemory(fault) },
		Join: func(_ *testing.T, s Store) Store { return s.(*memory).join() },
		Peek: func(_ context.Context, s Store, resource string) (string, error) {
			m := of(s)
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.values[m.name(resource)], nil
		},
		Restart: func(_ *testing.T, s Store) Store { return s.(*memory).restart() },
		Abort: func(_ context.Context, s Store, resource string, t fencing.Token, value string) error {
			return of(s).abort(resource, t, value)
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

// TestBrokenGuard is run by TestSuiteFindsBrokenGuards, in a separate process.
func TestBrokenGuard(t *testing.T) {
	fault := os.Getenv(faultVariable)
	if fault == "" {
		t.Skip("runs only as a child of TestSuiteFindsBrokenGuards")
	}
	suiteOf(fault).Run(t)
}

// rule: K2
func TestSuiteFindsBrokenGuards(t *testing.T) {
	found := map[string]string{
		"admits all":                        "StaleTokensAreRefusedAndWriteNothing",
		"registers after its first read":    "RacingHoldersAreAdmittedInOrder",
		"keeps tokens in each instance":     "StaleTokensAreRefusedAndWriteNothing",
		"forgets after 40 resources":        "ManyResourcesAreRemembered",
		"one register, of either mode":      "SharedTokensShareAndExcludeWriters",
		"one register, of exclusive tokens": "SharedTokensShareAndExcludeWriters",
		"writes first":                      "StaleTokensAreRefusedAndWriteNothing",
		"reports no highest":                "StaleTokensAreRefusedAndWriteNothing",
		"refuses equals":                    "EqualTokensAreAdmitted",
		"reads do not register":             "ReadsRegisterTheirToken",
		"folds case":                        "ResourcesAreKeptApart",
		"cuts names":                        "ResourcesAreKeptApart",
		"takes 0":                           "NoTokenAndNoResourceAreRefused",
		"asks first, writes later":          "RacingHoldersAreAdmittedInOrder",
		"forgets at restart":                "RefusalsSurviveARestart",
		"keeps aborted tokens":              "AbortedWritesLeaveNoTrace",
		"says not applied":                  "WritesWhoseAnswerWasLostCanBeRepeated",
		"ignores contexts":                  "DoneContextsEndInAnError",
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

// The races alone find one register, too.
func TestRacesOverOneRegisterDoNotPassCheck(t *testing.T) {
	for _, fault := range []string{"", "one register, of either mode", "one register, of exclusive tokens"} {
		t.Run(fault, func(t *testing.T) {
			wrong := 0
			for seed := range uint64(50) {
				m := newMemory(fault)
				rec := Record(m, m.join())
				Race(t.Context(), rec, 8, 25, seed)
				if Check(rec.History()) != nil {
					wrong++
				}
			}
			assert.Equal(t, fault != "", wrong > 0, "%d of 50 histories were wrong", wrong)
		})
	}
}

// exclusive is a store that refuses shared tokens.
type exclusive struct{ Store }

func TestSuiteSkipsWhatAStoreDoesNotHave(t *testing.T) {
	s := suiteOf("")
	s.Open = func(*testing.T) Store { return exclusive{newMemory("")} }
	s.Join = func(_ *testing.T, s Store) Store { return s }
	s.Peek = func(_ context.Context, s Store, resource string) (string, error) {
		return s.(exclusive).Store.(*memory).values[resource], nil
	}
	s.Restart, s.Abort, s.LoseAnswer, s.Writers, s.Rounds = nil, nil, nil, 2, 2
	s.Run(t)
}
