package supervise

import (
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// As the stop of a service sends it, and pkill: to the guardian and to the holder. What the
// terminal sent to the job is not the holder's.
func TestASignalToGuardianAndHolderComesThroughTheLinkOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, guardian := net.Pipe()
		l := &Link{conn: holder, awake: make(chan struct{}, 1), gone: make(chan struct{})}
		own, signals := make(chan os.Signal), make(chan Signal, 16)
		go l.read(signals)         // ends with the guardian's end
		go l.passOwn(own, signals) // ends with the channel
		defer close(own)
		defer guardian.Close()
		sent := func(number byte) {
			_, err := guardian.Write([]byte{number})
			require.NoError(t, err)
			synctest.Wait()
		}
		received := func(sig os.Signal) {
			own <- sig
			synctest.Wait()
		}
		came := func() (all []Signal) {
			for len(signals) > 0 {
				all = append(all, <-signals)
			}
			return all
		}
		for _, sig := range forwarded {
			number := sig.(unix.Signal)
			sent(byte(number))
			received(sig)
			assert.Equal(t, []Signal{{Number: number}}, came(), "%v to the guardian first", sig)
			received(sig)
			sent(byte(number))
			assert.Equal(t, []Signal{{Number: number}}, came(), "%v to the holder first", sig)
			sent(byte(number))
			time.Sleep(together + 1)
			received(sig)
			assert.Equal(t, []Signal{{Number: number}, {Number: number}}, came(), "%v to one, and later to the other", sig)
			time.Sleep(together + 1)
			sent(byte(number) | fromTerminal)
			received(sig)
			assert.Equal(t, []Signal{{Number: number, Job: true}, {Number: number}}, came(), "%v by the terminal, and by somebody", sig)
			time.Sleep(together + 1)
		}
	})
}

// What comes to both processes is passed on once, in whatever order they receive it, and what comes
// to one of them as often as it comes.
func TestASignalThatComesToGuardianAndHolderIsPassedOnOnce(t *testing.T) {
	const g, h = byGuardian, byHolder
	for name, c := range map[string]struct {
		by     []receiver
		passed []bool
	}{
		"the guardian first":             {[]receiver{g, h}, []bool{true, false}},
		"the holder first":               {[]receiver{h, g}, []bool{true, false}},
		"twice to both":                  {[]receiver{g, h, g, h}, []bool{true, false, true, false}},
		"twice to both, one after one":   {[]receiver{g, g, h, h}, []bool{true, true, false, false}},
		"the guardian alone":             {[]receiver{g, g, g}, []bool{true, true, true}},
		"the holder alone":               {[]receiver{h, h}, []bool{true, true}},
		"both, and then one alone":       {[]receiver{g, h, h}, []bool{true, false, true}},
		"one alone, and then the others": {[]receiver{h, h, g, g, g}, []bool{true, true, false, false, true}},
	} {
		var p pairs
		now := time.Now()
		for i, by := range c.by {
			now = now.Add(together / 10)
			for _, sig := range forwarded {
				assert.Equal(t, c.passed[i], p.first(sig.(unix.Signal), by, now), "%s: %v %d", name, sig, i)
			}
		}
	}
	var p pairs
	now := time.Now()
	assert.True(t, p.first(unix.SIGTERM, g, now))
	assert.True(t, p.first(unix.SIGTERM, h, now.Add(together+1)), "a later one is another")
	assert.False(t, p.first(unix.SIGTERM, g, now.Add(2*together+1)))
}
