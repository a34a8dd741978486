package cli

import (
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/spf13/cobra"
)

// Words requires n words before the "--", and allows any after it.
func Words(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		before := len(BeforeDash(cmd, args))
		switch {
		case before < n:
			return Usage("%s: want %s", cmd.CommandPath(), names)
		case before > n:
			return Usage("%s: %q is one too many after %s; a command goes after --", cmd.CommandPath(), args[n], names)
		case cmd.ArgsLenAtDash() >= 0 && len(args) == n:
			return Usage("%s: no command after --", cmd.CommandPath())
		}
		return nil
	}
}

// FlagErrors is the FlagErrorFunc of a command with n words before the "--". If a flag after more words
// is not pawl's, it probably belongs to a command whose "--" was forgotten.
func FlagErrors(n int) func(*cobra.Command, error) error {
	return func(cmd *cobra.Command, err error) error {
		if words := cmd.Flags().Args(); len(words) > n { // those before the flag
			return Usage("%w; if %q is a command: it goes after --", err, words[n])
		}
		return Exit(ExitUsage, err)
	}
}

// BeforeDash returns the words before the "--", or all if there is none.
func BeforeDash(cmd *cobra.Command, args []string) []string {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		return args[:n]
	}
	return args
}

// UpTo requires at most n words.
func UpTo(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return Usage("%s: %q is one too many after %s", cmd.CommandPath(), args[n], names)
		}
		return nil
	}
}

// CheckName refuses an invalid name, before any request.
func CheckName(name string, etcdLayout bool) error {
	if _, err := keys.NewQueue("", name, etcdLayout); err != nil {
		return Usage("NAME: %w", err)
	}
	return nil
}

// OneName requires only NAME, which may begin with a dash after "--".
func OneName(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return Usage("%s: want NAME", cmd.CommandPath())
	}
	return UpTo(1, "NAME")(cmd, args)
}
