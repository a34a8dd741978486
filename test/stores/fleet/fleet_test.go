//go:build unix

package fleet_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing/sqlfence"
	"github.com/pawl-locks/pawl/internal/testkit/fleet"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/stores/realdb"
)

var runFor = flag.Duration("fleet", 700*time.Millisecond, "how long each fleet runs at least; -parallel says how many stores at once")

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
	testscale.SideBySide(len(places))
	os.Exit(realdb.Main(m))
}

// fleetOf is a fleet on an empty store.
func fleetOf(t *testing.T, name string, guard bool, readers fleet.Readers) fleet.Fleet {
	at := places[name](t, guard)
	return fleet.Fleet{Store: name, Open: openers[name], Address: at.address, Guard: guard, For: *runFor, Cut: at.cut, Issuer: at.issuer, Seed: testscale.Seed(t), Readers: readers}
}

func run(t *testing.T, name string, readers fleet.Readers) fleet.Result {
	f := fleetOf(t, name, true, readers)
	r := f.Run(t)
	t.Logf("%v, seed %d: %v", readers, f.Seed, r)
	require.Positive(t, r.Acked, "nothing was written, so nothing was shown")
	require.Positive(t, r.Expired, "no lease was outlived, so nothing was shown")
	return r
}

// rule: K2
func TestFleetLosesNoUpdateWithTheGuardAndOneWithoutIt(t *testing.T) {
	for name := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleet.CheckGuard(t, func() fleet.Result { return run(t, name, fleet.NoReaders) },
				func(guard bool) fleet.Result { return fleetOf(t, name, guard, fleet.NoReaders).Force(t) })
		})
	}
}

// etcd has no register, with readers or without: a guard there compares the holder's own key.
func TestFleetOfReadersAndWritersIsRightWithTwoRegistersAndNotWithOne(t *testing.T) {
	for name := range places {
		if name == "etcd" || !testscale.Proof() && name != "gRPC" { // the registers of each store have separate tests
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleet.CheckReaders(t, func() fleet.Result { return run(t, name, fleet.TwoRegisters) },
				func(readers fleet.Readers) fleet.Result { return fleetOf(t, name, true, readers).Force(t) })
		})
	}
}
