package blobfence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/pawl-locks/pawl/fencing/blobfence"
)

type object struct {
	body string
	meta blobfence.Meta
	at   blobfence.Version
}

// memory is a Store, with a fault for each Put to come.
type memory struct {
	mu      sync.Mutex
	objects map[string]object
	n       int
	late    []func() // Puts that are still on their way

	fault func() fault // nil for none
	puts  int
}

type fault int

const (
	none      fault = iota
	notSent         // not applied, and an error
	lost            // applied, and an error
	onItsWay        // an error, and applied later if the version is still there
	lookFails       // Stat and Get fail
	forbidden       // not applied, for good
)

var errReset = errors.New("connection reset")

func newMemory() *memory { return &memory{objects: map[string]object{}} }

func (m *memory) next() fault {
	if m.fault == nil {
		return none
	}
	return m.fault()
}

func (m *memory) Stat(ctx context.Context, name string) (blobfence.Meta, blobfence.Version, error) {
	_, meta, at, err := m.Get(ctx, name)
	return meta, at, err
}

func (m *memory) Get(ctx context.Context, name string) ([]byte, blobfence.Meta, blobfence.Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return nil, blobfence.Meta{}, "", ctx.Err()
	}
	if m.next() == lookFails {
		return nil, blobfence.Meta{}, "", errReset
	}
	o, ok := m.objects[name]
	if !ok {
		return nil, blobfence.Meta{}, "", blobfence.ErrNotFound
	}
	return []byte(o.body), o.meta, o.at, nil
}

func (m *memory) Put(ctx context.Context, name string, body []byte, meta blobfence.Meta, at blobfence.Version) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.puts++
	switch m.next() {
	case notSent:
		return errReset
	case lost:
		_ = m.put(name, body, meta, at)
		return errReset
	case forbidden:
		return fmt.Errorf("%w: access denied", blobfence.ErrNotApplied)
	case onItsWay:
		m.late = append(m.late, func() { _ = m.put(name, body, meta, at) })
		return errReset
	}
	return m.put(name, body, meta, at)
}

func (m *memory) put(name string, body []byte, meta blobfence.Meta, at blobfence.Version) error {
	if m.objects[name].at != at {
		return blobfence.ErrChanged
	}
	m.n++
	m.objects[name] = object{string(body), meta, blobfence.Version(strconv.Itoa(m.n))}
	return nil
}

// arrive lets what is on its way arrive.
func (m *memory) arrive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.late {
		f()
	}
	m.late = nil
}

// randomly is a fault in every third call, and lets late Puts arrive at random.
func (m *memory) randomly(rnd *rand.Rand) func() fault {
	return func() fault { // m.mu is held
		if len(m.late) > 0 && rnd.IntN(4) == 0 {
			i := rnd.IntN(len(m.late))
			m.late[i]()
			m.late = append(m.late[:i], m.late[i+1:]...)
		}
		if rnd.IntN(3) == 0 {
			return fault(rnd.IntN(int(forbidden) + 1))
		}
		return none
	}
}
