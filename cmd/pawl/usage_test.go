package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
)

// Wrong usage is said before anybody is asked: no server listens here. What reaches the terminal of it, and the exit
// code of the process, is in the script usage.
func TestWrongUsageIsSaidAtOnce(t *testing.T) {
	for line, says := range map[string]string{
		"break --yes ''":                              "",
		"break --yes --token -1 a":                    "",
		"break --yes --token 0 a":                     "",
		"break":                                       "",
		"doctor a b":                                  "",
		"runs --set now/1d odd":                       "",
		"runs --set 2126-01-02T03:00:00Z odd":         "ahead of this machine.s clock",
		"runs --set now":                              "",
		"lock --at-most-once a -- true":               "--at-most-once wants --once",
		"lock --once now/1d a":                        "--once wants a COMMAND",
		"lock --once now/1d a b -- true":              "--once wants one NAME",
		"lock --once now/1d --shared a -- true":       "",
		"lock --once now/1d --permits 2 a -- true":    "",
		"lock --once now/1d --etcd-layout a -- true":  "",
		"lock --once now/0 a -- true":                 `"0" is no period: want one like 5m, 1h or 1d`,
		"lock --once yesterday a -- true":             "want a time like 2026-01-02T03:00:00Z",
		"lock --at-least 1 a":                         "",
		"lock --at-least 5 --max-hold 5 a -- true":    "",
		"lock --max-hold 0.1 a":                       "",
		"lock --max-hold 6 --grace 1.1 a -- true":     "want at most 1s, a sixth of --max-hold",
		"lock --stall 1m a":                           "--stall wants a COMMAND",
		"elect --stall 1m a b":                        "--stall wants a COMMAND",
		"lock --stall 0.5 a -- true":                  "--stall is 500ms, want at least 1s",
		"lock --permits 0 gpu -- true":                ".*0.*1000",
		"lock --permits 1001 gpu -- true":             "",
		"lock --permits -2 gpu -- true":               "",
		"lock --permits 2 --shared gpu -- true":       "--permits and --shared exclude each other",
		"lock --permits 2 a b -- true":                "--permits wants one NAME, not 2",
		"lock --permits 2 --etcd-layout gpu -- true":  "cannot be combined with",
		"show -q --holder x":                          "",
		"show -q --json x":                            "",
		"show -q":                                     "",
		"lock a ./script":                             `"./script" is one too many after NAME; a command goes after --: pawl lock a -- ./script$`,
		"lock a b --":                                 "no command after --",
		"lock a b a -- true":                          `the name "a" is given twice$`,
		"lock --etcd-layout a a/b -- true":            `of "a" and "a/b" one lies within the other in etcd.s layout$`,
		"lock a '' -- true":                           "",
		"lock --shared --etcd-layout docs -- true":    "shared mode cannot be combined with",
		"break --yes --slot 1 --token 5 gpu":          "of --token and --slot, give one",
		"break --yes --slot -1 gpu":                   "",
		"lock":                                        "",
		"lock a b":                                    "",
		"lock a --":                                   "",
		"lock --ttl 1 a":                              "",
		"lock --token-floor -1 a":                     "",
		"lock --ttl 6 --grace 1001ms a":               "",
		"lock '' -- true":                             "",
		"elect --etcd-layout //pawl v":                "",
		"lock -E 256 a -- true":                       "",
		"lock --wait x a -- true":                     "",
		"lock --nope a":                               "",
		"elect a":                                     "",
		"elect '' v":                                  "",
		"observe":                                     "",
		"observe ''":                                  "",
		"show":                                        "",
		"show a -- b":                                 "",
		"break --yes a -- b":                          "",
		"dev --port 70000":                            "",
		"dev x":                                       "",
		"demo x":                                      "",
		"what":                                        "",
		"ls --user ''":                                "",
		"elect --owner '' a b":                        "",
		"dev --data-dir ''":                           "",
		"ui --host ''":                                "",
		"lock --on-wanted NOPE a -- true":             "no such signal; want one like USR1",
		"lock --on-wanted USR1 a":                     "",
		"lock --on-wanted USR1 --permits 2 a -- true": "",
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			for i, a := range args {
				args[i] = strings.Trim(a, "'")
			}
			if command := args[0]; command != "dev" && command != "demo" && command != "doctor" && command != "what" {
				args = append([]string{command, "--endpoints", "127.0.0.1:1"}, args[1:]...)
			}
			root := newRoot()
			root.SetArgs(args)
			root.SetOut(io.Discard)
			_, err := root.ExecuteC()
			require.Error(t, err)
			assert.Equal(t, cli.ExitUsage, cli.CodeOf(err), "%v", err)
			assert.Regexp(t, says, err.Error())
		})
	}
}
