//go:build !linux

package reclaim

import (
	"os"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A Dir is a directory in which sessions leave their files. There is none on this system.
type Dir struct{}

// Open returns ErrSystem.
func Open(string) (*Dir, error) { return nil, ErrSystem }

// Path is the directory's.
func (*Dir) Path() string { return "" }

// Moved reports false.
func (*Dir) Moved() bool { return false }

// Publish returns ErrSystem.
func (*Dir) Publish(Left) (*File, error) { return nil, ErrSystem }

// PublishFor returns ErrSystem.
func (*Dir) PublishFor(Left) (*File, error) { return nil, ErrSystem }

// Claim returns ErrSystem.
func (*Dir) Claim(string) (*Claim, error) { return nil, ErrSystem }

// Names returns ErrSystem.
func (*Dir) Names() ([]string, error) { return nil, ErrSystem }

// Watch returns ErrSystem.
func (*Dir) Watch() (*Watch, error) { return nil, ErrSystem }

// A File is a session's file.
type File struct{}

// Check returns ErrSystem.
func (*File) Check() (bool, error) { return false, ErrSystem }

// Inherited is nil.
func (*File) Inherited() *os.File { return nil }

// Remove does nothing.
func (*File) Remove() error { return nil }

// A Claim is proof that nobody believes any more in what a Left describes. There is none on this system.
type Claim struct {
	Left
	name   string
	proved clock.Instant
}

func (*Claim) remove() error { return ErrSystem }

// LetGo does nothing.
func (*Claim) LetGo() {}

// A Watch tells which files lose their last reference.
type Watch struct{}

// Next returns ErrSystem.
func (*Watch) Next() ([]Ending, error) { return nil, ErrSystem }

// Close does nothing.
func (*Watch) Close() error { return nil }
