package hold

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
)

// sign is a flag for a signal, by its name, as kill(1) takes it: "USR1" or "SIGUSR1".
type sign syscall.Signal

// String is "" for a flag that was not given.
func (s *sign) String() string { return unix.SignalName(syscall.Signal(*s)) }

func (s *sign) Type() string { return "signal" }

func (s *sign) Set(text string) error {
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG"))
	if sig == 0 {
		return fmt.Errorf("there is no such signal; want one like USR1")
	}
	*s = sign(sig)
	return nil
}

// checkWanted finds what excludes --on-wanted.
func (o *lockOptions) checkWanted(argv []string) error {
	switch {
	case o.wanted == 0:
	case len(argv) == 0:
		return cli.Usage("--on-wanted wants a COMMAND, which gets the signal")
	case o.permits != noPermits:
		return cli.Usage("--on-wanted and --permits exclude each other: who waits for a semaphore waits for any of its slots")
	}
	return nil
}
