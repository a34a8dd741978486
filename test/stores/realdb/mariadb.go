//go:build unix

package realdb

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
)

var mariadb = &server{name: "MariaDB", start: startMariaDB}

// MariaDB returns the data source of a MariaDB for the driver "mysql". Its database "test" is empty.
func MariaDB(t testing.TB) string {
	t.Helper()
	return mariaSource(mariadb.use(t), "test")
}

// MariaDBDir returns the directory of the server's socket, which is named "sock".
func MariaDBDir(t testing.TB) string { return mariadb.use(t) }

// CrashMariaDB ends the server without a word to it, and starts it again.
func CrashMariaDB(t testing.TB) { mariadb.crash(t) }

func mariaSource(dir, database string) string {
	return "root@unix(" + filepath.Join(dir, "sock") + ")/" + database
}

func startMariaDB(s *server) error {
	install, err := program("mariadb-install-db")
	if err != nil {
		return err
	}
	mariadbd, err := program("mariadbd", "/usr/sbin", "/usr/libexec")
	if err != nil {
		return err
	}
	if err := s.makeDir(); err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	if err := s.run(install, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--datadir="+data, "--innodb-flush-method=nosync"); err != nil {
		return err
	}
	s.serve = func() error {
		db, err := sql.Open("mysql", mariaSource(s.dir, ""))
		if err != nil {
			return err
		}
		defer db.Close()
		ready := func(ctx context.Context) error {
			_, err := db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS test")
			return err
		}
		return s.await(ready, mariadbd, "--no-defaults", "--datadir="+data, "--socket="+filepath.Join(s.dir, "sock"), "--skip-networking", "--max-connections=200",
			"--pid-file="+filepath.Join(s.dir, "pid"), "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M", "--innodb-flush-method=nosync")
	}
	return s.serve()
}
