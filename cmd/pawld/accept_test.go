package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/launch"
)

// scripted is a listener that gives what the test sends.
type scripted struct {
	net.Listener
	results chan error
}

func (s scripted) Accept() (net.Conn, error) { return nil, <-s.results }
func (s scripted) Addr() net.Addr            { return &net.UnixAddr{Name: "p.sock", Net: "unix"} }

func TestAListenerThatCanAcceptNothingSaysWhenThatBeginsAndWhenItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		results := make(chan error, 1)
		a := &accepting{Listener: scripted{results: results}, log: slog.New(slog.NewJSONHandler(&text, nil))}
		accept := func(err error) {
			results <- err
			_, got := a.Accept()
			require.Equal(t, err, got)
		}
		said := func() (all []string) {
			synctest.Wait()
			for d := json.NewDecoder(&text); ; {
				var line struct{ Msg, Cause, Listener string }
				if d.Decode(&line) != nil {
					return all
				}
				assert.Equal(t, "p.sock", line.Listener)
				all = append(all, strings.TrimSpace(line.Msg[:11]+" "+line.Cause))
			}
		}
		full := &net.OpError{Op: "accept", Err: syscall.EMFILE}
		accept(nil)
		assert.Empty(t, said())
		for range 100 { // each that is closed lets one in
			accept(full)
			accept(nil)
			time.Sleep(acceptQuiet - 1)
		}
		assert.Equal(t, []string{"no connecti " + full.Error()}, said(), "once")
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []string{"connections"}, said(), "without another connection")
		accept(nil)
		time.Sleep(time.Hour)
		assert.Empty(t, said())
		accept(full)
		assert.Len(t, said(), 1, "the next time, too")
		accept(net.ErrClosed)
		time.Sleep(time.Hour)
		assert.Empty(t, said())
	})
}

// The limit is of a real process: its connections take all its descriptors.
func TestWithoutAFreeDescriptorPawldSaysSoAndRecovers(t *testing.T) {
	t.Parallel()
	socket := launch.Socket(t)
	args := append(ofShared(t).flags(), "--socket", socket)
	p := beginCmd(t, exec.Command("/bin/sh", append([]string{"-c", `ulimit -n 48; exec "$0" "$@"`, os.Args[0]}, args...)...))
	p.waitFor(socket)
	p.http = unixClient(socket)
	p.call("List", object{"prefix": "n"})
	p.http.CloseIdleConnections()
	var idle []net.Conn
	for range 60 {
		c, err := net.Dial("unix", socket)
		require.NoError(t, err)
		idle = append(idle, c)
	}
	p.awaitSaid(`level=ERROR msg="no connection can be accepted`)
	p.awaitSaid("too many open files")
	for _, c := range idle {
		_ = c.Close()
	}
	p.call("List", object{"prefix": "n"})
	p.awaitSaid(`msg="connections are accepted again"`)
	p.stop(syscall.SIGINT)
}
