package cli

import (
	"cmp"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// Evictor names the user who evicts, for people to read.
func Evictor() string {
	host, _ := os.Hostname()
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return cmp.Or(os.Getenv("SUDO_USER"), name) + "@" + cmp.Or(host, "?")
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
