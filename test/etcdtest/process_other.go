//go:build !linux

package etcdtest

import (
	"errors"
	"os"
	"os/exec"
)

func tie(*exec.Cmd) {}

func pause(*os.Process) error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }

// locked cannot be determined here.
func locked(string) bool { return false }
