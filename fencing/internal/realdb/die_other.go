//go:build !linux

package realdb

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
