package cli

import (
	"fmt"
	"strings"
)

// ShellWord quotes s as one word of a shell's command line. Names and keys come from others,
// and advice should be safe to paste.
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

// ShellName is ShellWord for a word that is not a flag, even if it begins with a dash.
func ShellName(s string) string {
	if strings.HasPrefix(s, "-") {
		return "-- " + ShellWord(s)
	}
	return ShellWord(s)
}

const plainInShells = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@%+"
