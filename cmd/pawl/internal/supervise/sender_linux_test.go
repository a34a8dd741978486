//go:build amd64 || arm64

package supervise

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const recordsVariable = "PAWL_TEST_RECORDS"

// A guardian counts senders before it requests signals. One that came in between would be neither
// counted nor passed on.
func TestSendersAreRecordedBeforeSignalsAreRequested(t *testing.T) {
	if os.Getenv(recordsVariable) == "" { // in a process that has requested none
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), recordsVariable+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	var s senders
	s.record()
	require.True(t, s.recorded)
	require.NoError(t, unix.Kill(os.Getpid(), unix.SIGWINCH)) // which ends nothing
	require.Eventually(t, func() bool { byProcess, _ := sent(unix.SIGWINCH); return byProcess == 1 }, time.Minute, time.Millisecond)
	alone, job := s.of(unix.SIGWINCH)
	require.Equal(t, []int{1, 0}, []int{alone, job})
}
