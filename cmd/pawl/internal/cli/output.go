package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// An output is stdout, and records that a write has failed, so that an incomplete report does
// not end with exit code 0.
type output struct {
	w       io.Writer
	err     error
	notices *Notices
}

func newOutput(w io.Writer) *output { return &output{w: w, notices: NewNotices(w)} }

// OutNotices returns Notices for a command's stdout. Run waits for them. A command that uses them
// writes nothing else there.
func OutNotices(cmd *cobra.Command) io.Writer {
	if out, ok := cmd.OutOrStdout().(*output); ok {
		return out.notices
	}
	return cmd.OutOrStdout()
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// check returns a command's err, or, if that is nil, the error of a failed write. A closed
// reader is no failure.
func (o *output) check(err error) error {
	all := o.notices.Await(NoticeGrace)
	if o.err == nil {
		o.err = o.notices.Err()
	}
	if o.err == nil && !all {
		o.err = errors.New("nobody read it")
	}
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

// Written returns the error of writing to stdout, or nil if the reader has closed it.
func Written(err error) error {
	if errors.Is(err, unix.EPIPE) {
		return nil
	}
	return err
}
