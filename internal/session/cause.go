package session

import "fmt"

// cause is a sentinel with an explanation.
type cause struct {
	sentinel error
	detail   string
	last     error // the previous failure, for the text only: not matched
}

func because(sentinel error, format string, args ...any) error {
	return &cause{sentinel: sentinel, detail: fmt.Sprintf(format, args...)}
}

func (c *cause) Error() string {
	s := c.sentinel.Error()
	if c.detail != "" {
		s += ": " + c.detail
	}
	if c.last != nil {
		s += " (last failure: " + c.last.Error() + ")"
	}
	return s
}

func (c *cause) Unwrap() error { return c.sentinel }
