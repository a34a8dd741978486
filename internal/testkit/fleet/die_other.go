//go:build unix && !linux

package fleet

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
