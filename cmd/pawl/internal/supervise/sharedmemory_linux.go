package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("pawl", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "memfd:pawl"), nil
}
