package kv

import (
	"reflect"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

func TestGuardsAreComparable(t *testing.T) {
	h := new(holder)
	a, b := Guard{"k", 1, h}, Guard{"k", 1, h}
	assert.True(t, a == b)
	assert.True(t, reflect.DeepEqual(a, b))
	assert.False(t, a == Guard{"k", 2, h})
	assert.False(t, a == Guard{"l", 1, h})
	assert.False(t, a == Guard{})
	assert.NotPanics(t, func() { _ = map[Guard]int{a: 1} })
}

func TestWhatIsGivenIsCopied(t *testing.T) {
	v := []byte("1")
	p, c := Put("k", v), Value("k", v)
	v[0] = '2'
	assert.Equal(t, "1", string(p.value))
	assert.Equal(t, "1", string(c.value))
}
