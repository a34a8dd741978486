//go:build unix

package fleet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/testkit/fleet"
	"github.com/pawl-locks/pawl/test/etcdtest"
	"github.com/pawl-locks/pawl/test/stores/realdb"
)

func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "fleet")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// A place is where an empty store is.
type place struct {
	address string       // for the workers
	cut     func()       // nil if no connection leads there
	issuer  fleet.Issuer // nil if the store keeps the tokens
}

// through has the workers go through a proxy on the way to a socket or a port.
func through(t *testing.T, target string) place {
	p := faultproxy.StartAt(t, filepath.Join(shortDir(t), "proxy"), target)
	return place{address: p.Addr(), cut: p.Finish}
}

// places make an empty store.
var places = map[string]func(t *testing.T, guard bool) place{
	"SQLite": func(t *testing.T, _ bool) place {
		source := "file:" + filepath.Join(t.TempDir(), "fence.db") + "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
		create(t, "SQLite", source)
		return place{address: source}
	},
	"PostgreSQL": func(t *testing.T, _ bool) place {
		source, dir := realdb.Postgres(t), shortDir(t)
		create(t, "PostgreSQL", source)
		p := faultproxy.StartAt(t, filepath.Join(dir, ".s.PGSQL.5432"), filepath.Join(realdb.PostgresDir(t), ".s.PGSQL.5432"))
		return place{address: strings.Replace(source, realdb.PostgresDir(t), dir, 1), cut: p.Finish}
	},
	"MariaDB": func(t *testing.T, _ bool) place {
		source, dir := realdb.MariaDB(t), shortDir(t)
		create(t, "MariaDB", source)
		p := faultproxy.StartAt(t, filepath.Join(dir, "sock"), filepath.Join(realdb.MariaDBDir(t), "sock"))
		return place{address: strings.Replace(source, realdb.MariaDBDir(t), dir, 1), cut: p.Finish}
	},
	"directory": func(t *testing.T, _ bool) place { return place{address: t.TempDir()} },
	"HTTP":      func(t *testing.T, guard bool) place { return through(t, serveHTTP(t, guard)) },
	"gRPC":      func(t *testing.T, guard bool) place { return through(t, serveGRPC(t, guard)) },
	"etcd": func(t *testing.T, _ bool) place {
		server := etcdtest.Start(t)
		p := through(t, server.Addr())
		p.issuer = newKeys(t, server.Addr())
		return p
	},
}

func create(t *testing.T, name, source string) {
	s, err := openers[name](source, true)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.(sqlStore).create(t.Context()))
}
