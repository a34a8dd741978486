//go:build unix

package fleet_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing/fencetest"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
	"github.com/pawl-locks/pawl/internal/testkit/fleet"
	"github.com/pawl-locks/pawl/internal/testkit/lane"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
	"github.com/pawl-locks/pawl/test/stores/realdb"
)

var (
	runFor  = flag.Duration("fleet", 700*time.Millisecond, "how long each fleet runs at least, with the guard and then without; -parallel says how many stores at once")
	seedFor = flag.Uint64("seed", 0, "of the fleets; 0: at random")
)

var openers = map[string]fleet.Opener{
	"SQLite":     openSQL("sqlite", sqlfence.SQLite),
	"PostgreSQL": openSQL("pgx", sqlfence.Postgres),
	"MariaDB":    openSQL("mysql", sqlfence.MySQL),
	"directory":  openDir,
	"HTTP":       openHTTP,
	"gRPC":       openGRPC,
	"etcd":       openEtcd,
}

func TestMain(m *testing.M) {
	fleet.Main(openers)
	os.Exit(realdb.Main(m))
}

func run(t *testing.T, name string, guard bool, readers fleet.Readers, seed uint64, least time.Duration) fleet.Result {
	at := places[name](t, guard)
	r := fleet.Fleet{Store: name, Open: openers[name], Address: at.address, Guard: guard, For: least, Cut: at.cut, Issuer: at.issuer, Seed: seed, Readers: readers}.Run(t)
	t.Logf("guard %t, %v, seed %d: %v", guard, readers, seed, r)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again with: go test -count=1 -run '^%s$' ./test/stores/fleet -seed %d", t.Name(), seed)
		}
	})
	require.Positive(t, r.Acked, "nothing was written, so nothing was shown")
	require.Positive(t, r.Expired, "no lease was outlived, so nothing was shown")
	return r
}

func TestFleetLosesNoUpdateWithTheGuardAndSomeWithoutIt(t *testing.T) {
	for name := range places {
		if racedetector.Short() && name != "etcd" { // the workers' code is the same, and each guard has tests of its own
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := *seedFor
			if seed == 0 {
				seed = rand.Uint64()
			}
			guarded := run(t, name, true, fleet.NoReaders, seed, *runFor)
			assert.Zero(t, guarded.Lost, "%q", guarded.Missing)
			assert.NoError(t, fencetest.Check(guarded.History))

			if !lane.Proof() { // what a fleet without the guard loses is chance
				return
			}
			bare := run(t, name, false, fleet.NoReaders, seed, *runFor)
			for more := uint64(1); bare.Lost == 0 && more < 5; more++ { // a short run may be lucky
				bare = run(t, name, false, fleet.NoReaders, seed+more, *runFor<<more)
			}
			assert.Positive(t, bare.Lost, "without the guard nothing was lost either: this test shows nothing")
		})
	}
}

// etcd has no register, with readers or without: a guard there compares the holder's own key.
func TestFleetOfReadersAndWritersIsRightWithTwoRegistersAndNotWithOne(t *testing.T) {
	for name := range places {
		if name == "etcd" || !lane.Proof() && name != "gRPC" { // the registers of each store have tests of their own
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleet.CheckReaders(t, *seedFor, *runFor, func(readers fleet.Readers, seed uint64, least time.Duration) fleet.Result {
				return run(t, name, true, readers, seed, least)
			})
		})
	}
}
