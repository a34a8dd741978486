package reclaim

import (
	"errors"
	"io/fs"
	"os"
)

// A Look is what a directory has.
type Look struct {
	Alive   int              // files of processes that may live
	Dead    int              // files of dead ones
	Refused map[string]error // files that prove nothing
}

// LookAt looks at a directory, and makes none. Its error says why no death can be proved there.
func LookAt(path string) (l Look, err error) {
	if _, err := os.Stat(path); err != nil {
		return l, err
	}
	d, err := Open(path)
	if err != nil {
		return l, err
	}
	names, err := d.Names()
	if err != nil {
		return l, err
	}
	l.Refused = map[string]error{}
	for _, name := range names {
		c, err := d.Claim(name)
		switch {
		case err == nil:
			c.LetGo()
			l.Dead++
		case errors.Is(err, ErrAlive):
			l.Alive++
		case !errors.Is(err, fs.ErrNotExist):
			l.Refused[name] = err
		}
	}
	return l, nil
}
