package cli

import (
	"fmt"
	"strings"
)

// ShellWord is s as one word of a shell's command line that says s and nothing
// else: names and keys are others' words, and advice is there to be pasted.
func ShellWord(s string) string {
	switch {
	case s != "" && strings.Trim(s, plainInShells) == "":
		return s
	case Plain(s) == s:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder // POSIX has this since 2024, bash and zsh for long
	b.WriteString("$'")
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '\'' || c == '\\' {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}

// ShellName is shellWord for a word that is no flag, whatever it begins with.
func ShellName(s string) string {
	if strings.HasPrefix(s, "-") {
		return "-- " + ShellWord(s)
	}
	return ShellWord(s)
}

const plainInShells = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@%+"
