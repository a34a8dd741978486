//go:build !linux

package etcdtest

import (
	"errors"
	"os/exec"
)

func (d *disk) prepare(_ *exec.Cmd, stallable bool) error {
	if stallable {
		return errors.ErrUnsupported
	}
	return nil
}

func (d *disk) start(cmd *exec.Cmd) error { return cmd.Start() }

func (d *disk) proceed(uint64) {}

func supervised(string, string) int { return 1 }
