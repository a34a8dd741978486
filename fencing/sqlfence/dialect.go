package sqlfence

import "github.com/pawl-locks/pawl/fencing/internal/sqltable"

// A Dialect is the kind of database. The zero Dialect is refused.
type Dialect int

// The supported databases: PostgreSQL from 9.5, MySQL from 5.7 and MariaDB from 10.2 with
// InnoDB, SQLite from 3.25.
const (
	Postgres Dialect = Dialect(sqltable.Postgres)
	MySQL    Dialect = Dialect(sqltable.MySQL)
	SQLite   Dialect = Dialect(sqltable.SQLite)
)

// String returns the name of the database.
func (d Dialect) String() string { return d.table().String() }

func (d Dialect) table() sqltable.Dialect { return sqltable.Dialect(d) }
