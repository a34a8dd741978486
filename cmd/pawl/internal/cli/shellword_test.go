package cli

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWordsOfAdviceAreOneWordInAShell(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	for _, s := range []string{"backup", "reports/daily", "", "a b", "it's", "$(echo x)", "`echo x`", "$HOME", "a\nb", "\x1b[2J'\\", "é", "\xff", "!x", "a;b"} {
		out, err := exec.Command(shell, "-c", "printf %s "+ShellWord(s)).Output()
		require.NoError(t, err, "%q", s)
		assert.Equal(t, s, string(out), "%q is written as %s", s, ShellWord(s))
		assert.Equal(t, ShellWord(s), Plain(ShellWord(s)), "nothing raw reaches the terminal")
	}
	assert.Equal(t, "backup", ShellName("backup"))
	assert.Equal(t, "-- -x", ShellName("-x"))
}
