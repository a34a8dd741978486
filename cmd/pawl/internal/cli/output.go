package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// An output is stdout, which remembers that a write has failed: what looks like a report and is
// none must not end with exit code 0.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// check is err, of a command, unless that says nothing of an output that failed. That nobody reads any more
// is no failure.
func (o *output) check(err error) error {
	var e *exitError
	if silent := errors.As(err, &e) && e.err == nil; (err == nil || silent) && Written(o.err) != nil {
		return fmt.Errorf("what was to be said is lost: %w", o.err)
	}
	return err
}

// JSONLine writes v as a line.
func JSONLine(out io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = out.Write(append(line, '\n'))
	}
	return err
}

// Written is the error of writing to stdout; that nobody reads any more is none.
func Written(err error) error {
	if errors.Is(err, unix.EPIPE) {
		return nil
	}
	return err
}
