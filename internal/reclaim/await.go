package reclaim

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrSilent is the error of a call whose file system has not answered in time.
var ErrSilent = errors.New("the file system does not answer")

// Await returns what f returns, or ErrSilent if that takes longer than ctx lasts. Then late, which may be nil,
// gets what f returns without an error. f has a goroutine of its own, which ends with it, so that a disk that
// stands still holds up that one alone.
func Await[T any](ctx context.Context, f func() (T, error), late func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	got, givenUp := make(chan result), make(chan struct{})
	go func() {
		v, err := f()
		select {
		case got <- result{v, err}:
		case <-givenUp:
			if err == nil && late != nil {
				late(v)
			}
		}
	}()
	select {
	case r := <-got:
		return r.value, r.err
	case <-ctx.Done():
		close(givenUp)
		var none T
		return none, ErrSilent
	}
}

// Standstill, if there is one, is called before each use of a directory with this path. A test's stands
// still, as a disk does.
var Standstill atomic.Pointer[func(path string)]

func answers(path string) {
	if f := Standstill.Load(); f != nil {
		(*f)(path)
	}
}
