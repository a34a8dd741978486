package sqlfence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

// untouched is a database that must not be asked for a connection.
type untouched struct{ t *testing.T }

func (u untouched) Connect(context.Context) (driver.Conn, error) {
	u.t.Error("bad input reached the database")
	return nil, driver.ErrBadConn
}
func (u untouched) Driver() driver.Driver { return nil }

// The tests on real databases are in test/stores/sqlfence.
func TestNamesThatAreNoneReachNoDatabase(t *testing.T) {
	db := sql.OpenDB(untouched{t})
	for _, name := range []string{" ", "a b", "a-b", "a.b.c", ".a", "a.", `a"`, "a`", "1a", "ä", "a;", "a\n", strings.Repeat("a", 64)} {
		err := sqlfence.Fence{Dialect: sqlfence.SQLite, Table: name}.Create(t.Context(), db)
		assert.ErrorIs(t, err, sqlfence.ErrBadName, "%q", name)
		err = sqlfence.Row{Dialect: sqlfence.SQLite, Table: name, Key: "id", Token: "fence"}.Admit(t.Context(), db, 7, 57)
		assert.ErrorIs(t, err, sqlfence.ErrBadName, "%q", name)
	}
}

func TestUnusableTokensAndDialectsReachNoDatabase(t *testing.T) {
	db := sql.OpenDB(untouched{t})
	row := sqlfence.Row{Dialect: sqlfence.MySQL, Table: "jobs", Key: "id", Token: "fence"}
	assert.ErrorIs(t, row.Admit(t.Context(), db, 7, 0), fencing.ErrNoToken)
	row.Dialect = 0
	assert.ErrorContains(t, row.Admit(t.Context(), db, 7, 57), "no such dialect: Dialect(0)")
	assert.ErrorContains(t, sqlfence.Fence{Dialect: 4}.Create(t.Context(), db), "no such dialect: Dialect(4)")
}
