package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stuck is a writer that stands still until reader reads it.
func stuck() (n *Notices, reader *io.PipeReader) {
	reader, w := io.Pipe()
	return NewNotices(w), reader
}

func TestANoticeWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, reader := stuck()
		began := time.Now()
		fmt.Fprintln(n, "one")
		fmt.Fprintln(n, "two")
		assert.Equal(t, began, time.Now())
		assert.False(t, n.Await(time.Second))
		assert.Equal(t, began.Add(time.Second), time.Now())
		assert.False(t, n.Await(time.Second), "and nobody has read since")
		assert.Equal(t, began.Add(time.Second), time.Now())
		_ = reader.Close()
		synctest.Wait()
		assert.True(t, n.Await(time.Second))
	})
}

func TestNoticesAreWrittenInOrderAndAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, reader := stuck()
		var want strings.Builder
		for i := range 1000 {
			fmt.Fprintln(n, i)
			fmt.Fprintln(&want, i)
		}
		got := make(chan string)
		go func() {
			text, _ := io.ReadAll(io.LimitReader(reader, int64(want.Len())))
			got <- string(text)
		}()
		assert.True(t, n.Await(time.Second))
		assert.Equal(t, want.String(), <-got)
		assert.True(t, n.Await(time.Second))
		assert.NoError(t, n.Err())
	})
}

func TestWhatNobodyReadsIsBoundedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := Stderr
		defer func() { Stderr = said }()
		n, reader := stuck()
		Stderr = n
		fmt.Fprintln(n, "first")
		synctest.Wait() // it is being written
		line := strings.Repeat("x", 1023) + "\n"
		for range maxWaiting/1024 + 3 {
			fmt.Fprint(n, line)
		}
		got := make(chan string)
		go func() {
			text, _ := io.ReadAll(reader)
			got <- string(text)
		}()
		assert.True(t, n.Await(time.Second))
		require.NoError(t, n.w.(*io.PipeWriter).Close())
		text := <-got
		assert.Equal(t, maxWaiting/1024, strings.Count(text, line))
		assert.Contains(t, text, "pawl: 3 lines of what was to be said here dropped")
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestACommandWhoseNoticesAreLostSaysSo(t *testing.T) {
	out := newOutput(failing{})
	fmt.Fprintln(out.notices, "held")
	assert.ErrorContains(t, out.check(nil), "lost: full")
	synctest.Test(t, func(t *testing.T) {
		n, reader := stuck()
		out := &output{notices: n}
		fmt.Fprintln(n, "held")
		assert.ErrorContains(t, out.check(nil), "lost: nobody read it")
		_ = reader.Close()
		synctest.Wait()
	})
}
