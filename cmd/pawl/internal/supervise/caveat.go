package supervise

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Caveat is what the user has to know before a program at path is started, because it weakens the
// guarantees. It returns "" if there is nothing.
func Caveat(path string) string {
	if user, ok := runsAs(path, unix.Geteuid()); ok {
		return fmt.Sprintf("%s runs as user %d: pawl may not end it when the lock is lost; run pawl itself as that user", path, user)
	}
	if len(processes()) == 0 {
		return "the system does not show its processes: what the command starts can outlive the lock"
	}
	return ""
}

// runsAs is the user that a set-user-ID program runs as, if caller may not signal that user's
// processes.
func runsAs(path string, caller int) (user uint32, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return stat.Uid, ok && info.Mode()&os.ModeSetuid != 0 && caller != 0 && int(stat.Uid) != caller
}
