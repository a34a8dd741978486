// Pawld takes strict locks and elections on etcd for programs in any language, over a Unix
// socket and mutual TLS: see docs/how-to/pawld.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

// The exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	os.Exit(run(os.Args[1:], os.Stderr, signals))
}

// run is main with its surroundings given.
func run(args []string, stderr io.Writer, signals <-chan os.Signal) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "pawld:", err)
		return exitUsage
	}
	if err := serve(context.Background(), o, stderr, signals); err != nil {
		fmt.Fprintln(stderr, "pawld:", err)
		return exitFailed
	}
	return 0
}
