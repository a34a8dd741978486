package show

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/lock"
)

// What show -q and --holder read of a queue is the names of its keys, a thousand at a time, and its holders.
func TestWhatAScriptAsksOfALongQueueIsReadInFewRequests(t *testing.T) {
	const waiters = 20_000
	for holders, want := range map[int]int{1: 24, 5: 48, 1100: 170} {
		t.Run(fmt.Sprint(holders, " holders"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := inmemory.New(t, etcdfake.Options{})
				s, err := w.Client().Session(t.Context())
				require.NoError(t, err)
				var owners []string
				for i := range holders {
					m := lock.New(s, "name", lock.Options{Owner: fmt.Sprint("owner", i)})
					acquire := m.AcquireShared
					if holders == 1 {
						acquire = m.Acquire
					}
					_, err := acquire(t.Context())
					require.NoError(t, err)
					owners = append(owners, fmt.Sprint("owner", i))
				}
				for i := range waiters { // as etcd's client puts them
					w.Cluster.Put(fmt.Sprintf("name/%x", i+1), "", s.ID())
				}
				c := w.Client()
				for _, o := range []showOptions{{quiet: true}, {holder: true}} {
					var out bytes.Buffer
					cmd := &cobra.Command{}
					cmd.SetOut(&out)
					before := w.Cluster.Counts()
					require.NoError(t, o.answer(t.Context(), cmd, c, inspect.Scope{Name: "name"}))
					sent := w.Cluster.Counts().Since(before).Received["Txn"]
					if o.quiet {
						assert.Empty(t, out.String())
						assert.LessOrEqual(t, sent, 24)
						continue
					}
					assert.Equal(t, owners, strings.Fields(out.String()))
					assert.LessOrEqual(t, sent, want)
				}
			})
		})
	}
}
