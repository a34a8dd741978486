//go:build unix

package fleet_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing/fencetest"
	"github.com/pawl-locks/pawl/fencing/internal/fleet"
	"github.com/pawl-locks/pawl/fencing/internal/realdb"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
)

var runFor = flag.Duration("fleet", 700*time.Millisecond, "how long each fleet runs, with the guard and without; from 10s on all stores at once")

var openers = map[string]fleet.Opener{
	"SQLite":     openSQL("sqlite", sqlfence.SQLite),
	"PostgreSQL": openSQL("pgx", sqlfence.Postgres),
	"MariaDB":    openSQL("mysql", sqlfence.MySQL),
	"directory":  openDir,
	"HTTP":       openHTTP,
	"gRPC":       openGRPC,
}

func TestMain(m *testing.M) {
	fleet.Main(openers)
	os.Exit(realdb.Main(m))
}

func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "fleet")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// places make an empty store, and return its address for the workers and a cut.
var places = map[string]func(t *testing.T, guard bool) (address string, cut func()){
	"SQLite": func(t *testing.T, _ bool) (string, func()) {
		source := "file:" + filepath.Join(t.TempDir(), "fence.db") + "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
		create(t, "SQLite", source)
		return source, nil
	},
	"PostgreSQL": func(t *testing.T, _ bool) (string, func()) {
		source, dir := realdb.Postgres(t), shortDir(t)
		create(t, "PostgreSQL", source)
		p := fleet.NewProxy(t, filepath.Join(dir, ".s.PGSQL.5432"), filepath.Join(realdb.PostgresDir(t), ".s.PGSQL.5432"))
		return strings.Replace(source, realdb.PostgresDir(t), dir, 1), p.Cut
	},
	"MariaDB": func(t *testing.T, _ bool) (string, func()) {
		source, dir := realdb.MariaDB(t), shortDir(t)
		create(t, "MariaDB", source)
		p := fleet.NewProxy(t, filepath.Join(dir, "sock"), filepath.Join(realdb.MariaDBDir(t), "sock"))
		return strings.Replace(source, realdb.MariaDBDir(t), dir, 1), p.Cut
	},
	"directory": func(t *testing.T, _ bool) (string, func()) { return t.TempDir(), nil },
	"HTTP": func(t *testing.T, guard bool) (string, func()) {
		p := fleet.NewProxy(t, filepath.Join(shortDir(t), "proxy"), serveHTTP(t, guard))
		return p.Path, p.Cut
	},
	"gRPC": func(t *testing.T, guard bool) (string, func()) {
		p := fleet.NewProxy(t, filepath.Join(shortDir(t), "proxy"), serveGRPC(t, guard))
		return p.Path, p.Cut
	},
}

func create(t *testing.T, name, source string) {
	s, err := openers[name](source, true)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.(sqlStore).create(t.Context()))
}

func run(t *testing.T, name string, guard bool, seed uint64) fleet.Result {
	address, cut := places[name](t, guard)
	r := fleet.Fleet{Store: name, Open: openers[name], Address: address, Guard: guard, For: *runFor, Cut: cut, Seed: seed}.Run(t)
	t.Logf("guard %t, seed %d: %v", guard, seed, r)
	require.Positive(t, r.Acked, "nothing was written, so nothing was shown")
	require.Positive(t, r.Expired, "no lease was outlived, so nothing was shown")
	return r
}

func TestFleetLosesNoUpdateWithTheGuardAndSomeWithoutIt(t *testing.T) {
	for name := range places {
		t.Run(name, func(t *testing.T) {
			if *runFor >= 10*time.Second {
				t.Parallel()
			}
			seed := rand.Uint64()
			guarded := run(t, name, true, seed)
			assert.Zero(t, guarded.Lost, "%q", guarded.Missing)
			assert.NoError(t, fencetest.Check(guarded.History))

			bare := run(t, name, false, seed)
			for more := uint64(1); bare.Lost == 0 && more < 5; more++ { // a short run may be lucky
				bare = run(t, name, false, seed+more)
			}
			assert.Positive(t, bare.Lost, "without the guard nothing was lost either: this test shows nothing")
		})
	}
}
