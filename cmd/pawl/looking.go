package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
)

// looking is what the commands that look at a namespace have in common.
type looking struct {
	connection
	json bool
	etcd bool
}

func (o *looking) flags(cmd *cobra.Command, forEach string) {
	o.connection.flags(cmd.Flags())
	cmd.Flags().BoolVar(&o.json, "json", false, "a line of JSON for each "+forEach)
}

// nameFlags are for commands about one NAME.
func (o *looking) nameFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.etcd, "etcd-layout", false, "take NAME verbatim, as etcdctl and clientv3's concurrency do; without a slash in it, it is the same")
	completesNames(cmd, &o.connection)
}

// scope is the one of a NAME, which it checks.
func (o *looking) scope(name string) (inspect.Scope, error) {
	if err := checkName(name, o.etcd); err != nil {
		return inspect.Scope{}, err
	}
	return inspect.Scope{Name: name, EtcdLayout: o.etcd}, nil
}

// prefixOf is the PREFIX among args, which may be left out.
func prefixOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// with calls look with a client, and a ctx that a deadly signal ends.
func (o *looking) with(cmd *cobra.Command, look func(ctx context.Context, c *pawl.Client) error) error {
	ctx, stop := supervise.Catch().Ends(context.Background())
	defer stop()
	client, closed, err := o.open(ctx, cmd.Flags())
	if err != nil {
		return err
	}
	err = look(ctx, client)
	if cerr := closed(); err == nil {
		err = cerr
	}
	var sig *supervise.Interrupted
	if errors.As(context.Cause(ctx), &sig) && err != nil {
		return sig
	}
	return reach(err)
}

// upTo wants at most n words.
func upTo(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage("%s: %q is one too many after %s", cmd.CommandPath(), args[n], names)
		}
		return nil
	}
}

// checkName finds out that no lock can have that name before anything is asked.
func checkName(name string, etcdLayout bool) error {
	if _, err := keys.NewQueue("", name, etcdLayout); err != nil {
		return usage("NAME: %w", err)
	}
	return nil
}

// oneName wants NAME alone, which may begin with a dash behind "--".
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("%s: want NAME", cmd.CommandPath())
	}
	return upTo(1, "NAME")(cmd, args)
}

// plain is s if it can be shown as it is, and quoted otherwise: what others wrote
// must not reach a terminal raw, and spaces at an end or beside another would not be seen.
func plain(s string) string {
	hidden := s != strings.TrimSpace(s) || strings.Contains(s, "  ")
	if hidden || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(s)
	}
	return s
}

// base64Of is s in base64 where JSON cannot carry it, and "" where it can.
func base64Of(s string) string {
	if utf8.ValidString(s) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(s))
}

// orNone is s, or a dash.
func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// span is d for people, to two figures.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-"
	case d < time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}

// kindOf is what is wanted.
func kindOf(election bool) string {
	if election {
		return "election"
	}
	return "lock"
}

// jsonLine writes v as a line.
func jsonLine(out io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = out.Write(append(line, '\n'))
	}
	return err
}

// written is the error of writing to stdout; that nobody reads any more is none.
func written(err error) error {
	if errors.Is(err, unix.EPIPE) {
		return nil
	}
	return err
}
