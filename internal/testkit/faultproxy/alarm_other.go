//go:build !linux

package faultproxy

import "time"

// fine is the last part of a wait, for which an alarm is used. Here there is none.
const fine = 0

// An alarm waits as exactly as the runtime does.
type alarm struct{}

func (*alarm) wait(d time.Duration) { time.Sleep(d) }

func (*alarm) close() {}
