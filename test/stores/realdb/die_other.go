//go:build unix && !linux

package realdb

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
