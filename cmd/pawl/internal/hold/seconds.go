package hold

import (
	"fmt"
	"strconv"
	"time"
)

// seconds is a flag for a duration, as "1m30s" or a plain number of seconds as in flock(1) and
// timeout(1).
type seconds time.Duration

// String is "" for a flag that was not given, which its usage text describes.
func (s *seconds) String() string {
	if *s <= 0 {
		return ""
	}
	return time.Duration(*s).String()
}

func (s *seconds) Type() string { return "duration" }

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, ferr := strconv.ParseFloat(text, 64); ferr == nil {
		d, err = time.Duration(n*float64(time.Second)), nil
		if n < 0 || n > float64(1<<63-1)/float64(time.Second) {
			err = fmt.Errorf("out of range")
		}
	}
	if err != nil || d < 0 {
		return fmt.Errorf("want seconds, or a duration like 1m30s, and not below 0")
	}
	*s = seconds(d)
	return nil
}
