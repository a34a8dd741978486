package show

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/elect"
)

func TestObservePrintsNothingRaw(t *testing.T) {
	l := elect.Leader{Name: "a\n", Key: "a\n/\x1b[2J", Token: 5, Value: []byte("\x1b]0;x\a")}
	var o observeOptions
	assert.Contains(t, o.line(l, time.Now()), `"\x1b]0;x\a" leads "a\n": key="a\n/\x1b[2J" token=5`)
}
