package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/demo"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/doctor"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/hold"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/reap"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/show"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/top"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
	"github.com/pawl-locks/pawl/internal/version"
)

// newRoot makes the whole tree of commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Locks and leader election on etcd that report when they are lost",
		Long: `pawl acquires locks and leads elections on etcd, and runs commands under them. When a
lock is lost, the command is ended before anybody else can acquire the lock.

  pawl demo                          see it work; needs nothing
  pawl dev                           an etcd server to try it on
  pawl lock backup -- ./backup.sh    never two at once, on any machine
  pawl ls                            who holds what
  pawl help scripts                  how to use locks in scripts

The flags --endpoints, --user and so on, or the ETCDCTL_* variables, select the cluster.`,
		Version:           version.String(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		PersistentPreRunE: cli.RefuseEmpty,
		RunE:              func(cmd *cobra.Command, args []string) error { return cmd.Help() },
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(cmd, args[0])
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.Exit(cli.ExitUsage, err) })
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"hold", "Holding:", []*cobra.Command{hold.NewLock(), hold.NewElect()}},
		{"look", "Showing:", []*cobra.Command{show.NewLs(), show.NewShow(), show.NewShards(), show.NewWatch(), top.New(), ui.New(), show.NewObserve()}},
		{"act", "Repairing:", []*cobra.Command{show.NewBreak(), show.NewRuns(), reap.New(), doctor.New()}},
		{"try", "Trying:", []*cobra.Command{newDev(), demo.New()}},
		{"read", "Help:", []*cobra.Command{newMan()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(demo.NewWorker())
	root.AddCommand(topics()...)
	addCompletion(root)
	root.SetHelpCommandGroupID("read")
	root.SetCompletionCommandGroupID("read")
	return root
}

// noCommand is the error for a command that does not exist, with suggestions.
func noCommand(root *cobra.Command, name string) error {
	root.SuggestionsMinimumDistance = 2
	if near := root.SuggestionsFor(name); len(near) > 0 {
		return cli.Usage("there is no command %q; did you mean %s?", name, strings.Join(near, ", "))
	}
	return cli.Usage("there is no command %q", name)
}

// addCompletion adds cobra's command that writes completions, for the shells of the
// systems that pawl runs on.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd("completion")
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args = cli.Words(1, "a shell: bash, zsh or fish")
		c.RunE = func(cmd *cobra.Command, args []string) error {
			return cli.Usage("there is no completion for %q: bash, zsh and fish have one", args[0])
		}
		for _, shell := range c.Commands() {
			if shell.Name() == "powershell" {
				c.RemoveCommand(shell)
			}
			shell.Args = cli.Words(0, "no argument")
		}
	}
}
