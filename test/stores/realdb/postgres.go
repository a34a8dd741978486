//go:build unix

package realdb

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

var postgres = &server{name: "PostgreSQL", start: startPostgres, children: true}

// Postgres returns the data source of a PostgreSQL for the driver "pgx". The socket is
// .s.PGSQL.5432 in the directory of its "host".
func Postgres(t testing.TB) string {
	t.Helper()
	return postgresSource(postgres.use(t))
}

// PostgresDir returns the directory of the server's socket.
func PostgresDir(t testing.TB) string { return postgres.use(t) }

// CrashPostgres ends the server without a word to it, and starts it again.
func CrashPostgres(t testing.TB) { postgres.crash(t) }

func postgresSource(dir string) string {
	return fmt.Sprintf("host=%s port=5432 user=postgres dbname=postgres sslmode=disable", dir)
}

func startPostgres(s *server) error {
	initdb, err := program("initdb", "/usr/lib/postgresql/*/bin")
	if err != nil {
		return err
	}
	if err := s.makeDir(); err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	if err := s.run(initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"); err != nil {
		return err
	}
	s.serve = func() error {
		db, err := sql.Open("pgx", postgresSource(s.dir))
		if err != nil {
			return err
		}
		defer db.Close()
		return s.await(db.PingContext, filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "fsync=off")
	}
	return s.serve()
}
