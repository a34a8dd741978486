package httpfence

import (
	"bytes"
	"io"
)

type body struct {
	io.Reader
	io.Closer
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// unread puts back what was read of a body, and the error that reading it had.
func unread(head []byte, err error, rest io.ReadCloser) io.ReadCloser {
	if err != nil {
		return body{io.MultiReader(bytes.NewReader(head), failing{err}), rest}
	}
	return body{io.MultiReader(bytes.NewReader(head), rest), rest}
}
