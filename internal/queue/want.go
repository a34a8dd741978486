package queue

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/observe"
)

// MaxNames is how many names a set has at most: half as many exclusive names as fit into one
// transaction at etcd's default limit, and three quarters as many shared ones.
const MaxNames = 32

// maxOwner bounds Options.Owner, as lease.Options bounds the owner of a session.
const maxOwner = 1024

// A Want is a name to acquire, and its mode.
type Want struct {
	Name  string
	Mode  observe.Mode // "" means exclusive
	Limit int          // how many slots a semaphore has
}

// Options apply to every name.
type Options struct {
	EtcdLayout bool
	Owner      string
	Limits
}

// Check returns what is wrong with wants and o.
func (o Options) Check(wants []Want) error {
	switch {
	case len(wants) == 0:
		return errors.New("no names")
	case len(wants) > MaxNames:
		return fmt.Errorf("%d names, want at most %d", len(wants), MaxNames)
	case len(o.Owner) > maxOwner:
		return fmt.Errorf("Options.Owner has %d bytes, want at most %d", len(o.Owner), maxOwner)
	case o.Max < 0:
		return fmt.Errorf("Options.MaxHold is %v, want 0 or more", o.Max)
	case o.AtLeast < 0:
		return fmt.Errorf("Options.AtLeast is %v, want 0 or more", o.AtLeast)
	case o.Stall != 0 && o.Stall < MinStall:
		return fmt.Errorf("Options.Stall is %v, want 0 or at least %v", o.Stall, MinStall)
	}
	for i, w := range wants {
		err := o.checkName(w)
		switch {
		case err != nil && len(wants) > 1:
			return fmt.Errorf("name %d of %d: %w", i+1, len(wants), err)
		case err != nil:
			return err
		}
		if err := o.checkApart(w, wants[:i]); err != nil {
			return err
		}
	}
	return nil
}

// checkName returns what is wrong with one name, or with o for its mode.
func (o Options) checkName(w Want) error {
	mode, why := "", ""
	switch w.Mode {
	case observe.Shared:
		mode, why = "shared mode", "no shared keys"
	case observe.Semaphore:
		mode, why = "a semaphore", "none"
	default:
		return keys.CheckName(w.Name, o.EtcdLayout)
	}
	switch {
	case o.EtcdLayout:
		return fmt.Errorf("%s cannot be combined with Options.EtcdLayout: etcd's own clients know %s", mode, why)
	case w.Mode == observe.Shared:
		return keys.CheckName(w.Name, false)
	case w.Limit < 1 || w.Limit > keys.MaxLimit:
		return fmt.Errorf("the limit is %d, want 1 to %d", w.Limit, keys.MaxLimit)
	}
	return keys.CheckSemaphore(w.Name)
}

// checkApart returns which of others cannot be acquired together with w.
func (o Options) checkApart(w Want, others []Want) error {
	for _, other := range others {
		switch {
		case other.Name == w.Name:
			return fmt.Errorf("the name %q is given twice", w.Name)
		case o.EtcdLayout && (strings.HasPrefix(w.Name+"/", other.Name+"/") || strings.HasPrefix(other.Name+"/", w.Name+"/")):
			return fmt.Errorf("of %q and %q one lies within the other in etcd's layout", other.Name, w.Name)
		}
	}
	return nil
}

// Queues makes the queues of wants, which Check accepts.
func (o Options) Queues(namespace string, wants []Want) ([]Queue, error) {
	all := make([]Queue, len(wants))
	for i, w := range wants {
		q := &all[i]
		q.Shared, q.Limit = w.Mode == observe.Shared, w.Limit
		var err error
		if w.Mode == observe.Semaphore {
			q.Queue, err = keys.NewSemaphore(namespace, w.Name)
		} else {
			q.Queue, err = keys.NewQueue(namespace, w.Name, o.EtcdLayout)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
