package cli

import (
	"context"
	"math"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl/internal/inspect"
)

// completionTimeout is how long completion waits for the cluster, while the user waits at the
// terminal.
const completionTimeout = 2 * time.Second

// CompletesNames makes the shell offer the names that the cluster knows, for a
// command's first word.
func CompletesNames(cmd *cobra.Command, o *Connection) { completes(cmd, o, 1) }

// CompletesAllNames does the same for each word.
func CompletesAllNames(cmd *cobra.Command, o *Connection) { completes(cmd, o, math.MaxInt) }

func completes(cmd *cobra.Command, o *Connection, words int) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(args) > 0 && slices.Contains(os.Args, "--"): // a command's; cobra's own "--" hides from cmd whether there is one
			return nil, cobra.ShellCompDirectiveDefault
		case len(args) >= words, o.Embed:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.names(cmd, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// names returns the names that begin with begun, and none if the cluster does not answer.
func (o *Connection) names(cmd *cobra.Command, begun string) (names []cobra.Completion) {
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	client, closed, err := o.Open(ctx, cmd.Flags())
	if err != nil {
		return nil
	}
	defer func() { _ = closed() }()
	s, err := inspect.Read(ctx, client, inspect.Scope{Prefix: begun})
	if err != nil {
		return nil
	}
	for _, l := range s.Queues {
		if who := Holding(l); who != "" && Plain(l.Name) == l.Name {
			names = append(names, cobra.CompletionWithDesc(l.Name, l.Kind()+" held by "+who))
		}
	}
	return names
}
