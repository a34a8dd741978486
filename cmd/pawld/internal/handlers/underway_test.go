package handlers

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNoneIsClosedWhenTheLastHasEnded(t *testing.T) {
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	var u underway
	assert.True(t, closed(u.none()))
	u.begin()
	u.begin()
	one, other := u.none(), u.none()
	u.end()
	assert.False(t, closed(one))
	u.end()
	assert.True(t, closed(one) && closed(other) && closed(u.none()))
	u.begin()
	assert.False(t, closed(u.none()), "it counts again")
}
