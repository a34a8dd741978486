package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

var pageIsAt = regexp.MustCompile(`^the page is at (http://\S+/)(?:#key=(\S+))?$`)

// pageState is what a test looks at in /api/state.
type pageState struct {
	Namespace, Prefix, Cluster string
	Breakable                  bool
	Queues                     []struct {
		ID, Name  string
		Positions []struct{ Token, Owner string }
	}
	Holds []struct{ End, Cause, By string }
}

// stateOf is what the page at base shows.
func stateOf(t *testing.T, base string) (s pageState) {
	t.Helper()
	client := http.Client{Timeout: testscale.Hang}
	resp, err := client.Get(base + "api/state")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&s))
	client.CloseIdleConnections()
	return s
}

func TestUIServesWhatIsHeldAndBreaksWithItsKey(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	ui := begin(t, s.Addr(), "ui", "--listen", "127.0.0.1:0", "--namespace", "app/", "--allow-break", "re")
	said := pageIsAt.FindStringSubmatch(next(t, ui.lines()))
	require.NotNil(t, said)
	base, key := said[1], said[2]
	holder := begin(t, s.Addr(), "lock", "--namespace", "app/", "--owner", "ann", "reports")
	assert.Contains(t, next(t, holder.lines()), "held")
	other := begin(t, s.Addr(), "lock", "--namespace", "app/", "backup")
	assert.Contains(t, next(t, other.lines()), "held")
	eventually(t, func() bool { return len(stateOf(t, base).Queues) > 0 }, "it shows nothing")
	state := stateOf(t, base)
	assert.Equal(t, []string{"app/", "re", s.Addr()}, []string{state.Namespace, state.Prefix, state.Cluster})
	assert.True(t, state.Breakable)
	require.Len(t, state.Queues, 1, "the others do not begin so")
	queue := state.Queues[0]
	assert.Equal(t, "ann", queue.Positions[0].Owner)

	body := fmt.Sprintf(`{"queue":%q,"token":%q}`, queue.ID, queue.Positions[0].Token)
	r, err := http.NewRequestWithContext(t.Context(), "POST", base+"api/break", strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Pawl-Break", key)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	answer, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	assert.Equal(t, http.StatusOK, resp.StatusCode, string(answer))
	assert.Equal(t, cli.ExitLost, holder.code(t))
	eventually(t, func() bool {
		h := stateOf(t, base).Holds
		return len(h) == 1 && h[0].Cause == "broken" && h[0].By == cli.Evictor()
	}, "it does not show the break")

	require.NoError(t, ui.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, 0, ui.code(t))
	require.NoError(t, other.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, 0, other.code(t))
	requireNothingLeft(t, s)
}

func TestUIEndsAtASignalThoughABrowserListens(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	ui := begin(t, s.Addr(), "ui", "--listen", "127.0.0.1:0")
	said := pageIsAt.FindStringSubmatch(next(t, ui.lines()))
	require.NotNil(t, said)
	resp, err := http.Get(said[1] + "api/events")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.NoError(t, ui.cmd.Process.Signal(unix.SIGINT))
	assert.Equal(t, 0, ui.code(t))
	_, err = io.Copy(io.Discard, resp.Body)
	assert.NoError(t, err, "the stream was ended, not broken off")
}

func TestUIWhosePortIsTakenSaysWhichFlagPicksAnother(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	ui := begin(t, s.Addr(), "ui", "--listen", taken.Addr().String())
	assert.Equal(t, cli.ExitFailed, ui.code(t))
	assert.Contains(t, ui.stderr.String(), "--listen picks another address")
}
