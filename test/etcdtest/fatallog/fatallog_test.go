package fatallog

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

const endEnv = "PAWL_FATALLOG_END"

func TestOnlyTheEndOfTheProcessIsLogged(t *testing.T) {
	if os.Getenv(endEnv) != "" {
		l := New()
		l.Error("not logged")
		l.Fatal("cannot go on", zap.String("why", "the disk is full"))
	}
	self := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	self.Env = append(os.Environ(), endEnv+"=1")
	out, err := self.CombinedOutput()
	var ended *exec.ExitError
	require.ErrorAs(t, err, &ended)
	assert.Equal(t, 1, ended.ExitCode())
	assert.Regexp(t, `(?s)FATAL.*cannot go on.*the disk is full`, string(out))
	assert.NotContains(t, string(out), "not logged")
}
