package faultproxy

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fine is the last part of a wait, for which an alarm is used. The runtime's timers are late by up
// to a millisecond, half a network's round trip.
const fine = 2 * time.Millisecond

// An alarm waits for short times, precisely. The zero alarm is ready. One goroutine at a time may
// use it.
type alarm struct {
	f  *os.File // a timer of the kernel's, or nil
	fd int
}

// wait returns when d has passed.
func (a *alarm) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	if a.f == nil {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			time.Sleep(d)
			return
		}
		a.fd, a.f = fd, os.NewFile(uintptr(fd), "timerfd")
	}
	err := unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
	if err == nil {
		_, err = a.f.Read(make([]byte, 8))
	}
	if err != nil {
		time.Sleep(d)
	}
}

// close frees the timer.
func (a *alarm) close() {
	if a.f != nil {
		_ = a.f.Close()
	}
}
