package hold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A long TTL gives a command that has lost its lock no hours beside the next holder's, unless it was
// asked for.
func TestTheGraceOfALongTTLIsShort(t *testing.T) {
	for _, c := range []struct {
		ttl, given, want time.Duration
	}{
		{15 * time.Second, -1, 2500 * time.Millisecond},
		{5 * time.Minute, -1, 50 * time.Second},
		{24 * time.Hour, -1, 50 * time.Second},
		{24 * time.Hour, time.Hour, time.Hour},
		{24 * time.Hour, 0, 0},
	} {
		o := commonOptions{grace: seconds(c.given)}
		if c.given < 0 {
			o.grace = noGrace
		}
		assert.Equal(t, c.want, o.graceOf(c.ttl), "%v", c)
	}
}
