package main

import (
	"os/signal"

	"golang.org/x/sys/unix"
)

// terminal is our controlling terminal while we are in its foreground.
type terminal struct{ fd, group int }

// foreground is the terminal that is our stdin, if our process group is in its
// foreground: a command that reads from it must be there in our place.
func foreground() *terminal {
	const stdin = 0
	group, err := unix.IoctlGetInt(stdin, unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() {
		return nil
	}
	return &terminal{stdin, group}
}

// takeBack makes our group the foreground again. From the background that is
// allowed only to who ignores TTOU.
func (t *terminal) takeBack() {
	if t == nil {
		return
	}
	signal.Ignore(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group)
	signal.Reset(unix.SIGTTOU)
}
