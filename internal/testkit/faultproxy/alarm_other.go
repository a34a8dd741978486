//go:build !linux

package faultproxy

import "time"

// fine is the last part of a wait, for which an alarm is used: none, here.
const fine = 0

// An alarm waits as exactly as the runtime does.
type alarm struct{}

func (*alarm) wait(d time.Duration) { time.Sleep(d) }

func (*alarm) close() {}
