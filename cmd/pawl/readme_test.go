package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/demo"
)

// firstPrograms returns the whole programs that the README and the page of elections print,
// in their order, built as a reader would build them but for the endpoint.
func firstPrograms(t *testing.T, endpoint string) (programs []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	elections, err := os.ReadFile("../../docs/how-to/elections.md")
	require.NoError(t, err)
	text = append(text, elections...)
	for i, m := range regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindAllStringSubmatch(string(text), -1) {
		dir := filepath.Join(t.TempDir(), strconv.Itoa(i))
		require.NoError(t, os.Mkdir(dir, 0o755))
		source := strings.ReplaceAll(m[1], "127.0.0.1:2379", endpoint)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644))
		out, err := exec.Command("go", "build", "-ldflags=-w", "-o", filepath.Join(dir, "program"), filepath.Join(dir, "main.go")).CombinedOutput()
		require.NoError(t, err, string(out))
		programs = append(programs, filepath.Join(dir, "program"))
	}
	return programs
}

func TestTheReadmeAndTheHelpAgreeOnHowLongTheDemoTakes(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	said := regexp.MustCompile(`pawl demo +# see it work, (in \w+ seconds)\n`).FindStringSubmatch(string(text))
	require.NotNil(t, said)
	assert.Contains(t, demo.New().Short, said[1])
}

func TestFirstProgramsRunAgainstPawlDev(t *testing.T) {
	t.Parallel()
	dev := begin(t, "", "dev", "--port", "0")
	serving := servesOn.FindStringSubmatch(next(t, dev.lines()))
	require.NotNil(t, serving)
	programs := firstPrograms(t, serving[1])
	require.Len(t, programs, 2)

	once := beginWith(t, serving[1], programs[0])
	assert.Regexp(t, `^holding reports/daily with token \d+$`, next(t, once.lines()))
	assert.Equal(t, 0, once.code(t))

	cron := func() (*program, *bufio.Scanner) {
		p := beginWith(t, serving[1], "sh", "-c", `exec "$0" 2>&1`, programs[1])
		return p, p.lines()
	}
	turn := func(out *bufio.Scanner) int {
		m := regexp.MustCompile(`my turn, token (\d+)$`).FindStringSubmatch(next(t, out))
		require.NotNil(t, m)
		token, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		return token
	}
	first, out1 := cron()
	token := turn(out1)
	_, out2 := cron()
	require.NoError(t, first.cmd.Process.Signal(os.Interrupt))
	assert.Greater(t, turn(out2), token)
	assert.Equal(t, 0, first.code(t))
}
