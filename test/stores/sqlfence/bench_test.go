package sqlfence_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing/sqlfence"
	"github.com/pawl-locks/pawl/internal/testkit/pairbench"
)

// The cost that Admit adds to a transaction that writes one row, and that a Row's condition
// adds to a single statement.
func BenchmarkWrite(b *testing.B) {
	for _, d := range databases {
		b.Run(d.Dialect.String(), func(b *testing.B) {
			desk := d.open(b)
			ctx, guard, name, n := b.Context(), guarded{desk}, desk.name(job), 0
			require.NoError(b, guard.Write(ctx, job, 57, "x"))
			row, set := rows{desk}.row(), "value = ?"
			if d.Dialect == sqlfence.Postgres {
				set = "value = $1"
			}
			next := func() string { n++; return string(rune('a' + n%26)) } // so that each changes the row
			b.Run("transaction", func(b *testing.B) {
				pairbench.Run(b,
					pairbench.Way{Name: "bare", Do: func() error { return desk.bare(ctx, next()) }},
					pairbench.Way{Name: "Fence", Do: func() error { return guard.Write(ctx, job, 57, next()) }})
			})
			b.Run("statement", func(b *testing.B) {
				pairbench.Run(b,
					pairbench.Way{Name: "bare", Do: func() error {
						_, err := desk.db.ExecContext(ctx, desk.sql("UPDATE "+desk.values+" SET value = %s WHERE resource = %s"), next(), name)
						return err
					}},
					pairbench.Way{Name: "Row", Do: func() error { return row.Update(ctx, desk.db, name, 57, set, next()) }})
			})
		})
	}
}

func (d *desk) bare(ctx context.Context, value string) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := d.put(ctx, tx, job, value); err != nil {
		return err
	}
	return tx.Commit()
}
