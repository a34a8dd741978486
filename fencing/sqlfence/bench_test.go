package sqlfence_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// What Admit adds to a transaction that writes one row, and what a Row's condition adds to a statement of its own.
func BenchmarkWrite(b *testing.B) {
	for _, d := range databases {
		b.Run(d.Dialect.String(), func(b *testing.B) {
			desk := d.open(b)
			guard := guarded{desk}
			require.NoError(b, guard.Write(b.Context(), job, 57, "x"))
			row, set := rows{desk}.row(), desk.sql("value = %[1]s")
			if d.Dialect.String() == "PostgreSQL" {
				set = "value = $1"
			}
			name := desk.name(job)
			for _, c := range []struct {
				name string
				do   func(ctx context.Context, value string) error
			}{
				{"transaction/bare", func(ctx context.Context, value string) error { return desk.bare(ctx, value) }},
				{"transaction/Fence", func(ctx context.Context, value string) error { return guard.Write(ctx, job, 57, value) }},
				{"statement/bare", func(ctx context.Context, value string) error {
					_, err := desk.db.ExecContext(ctx, desk.sql("UPDATE "+desk.values+" SET value = %s WHERE resource = %s"), value, name)
					return err
				}},
				{"statement/Row", func(ctx context.Context, value string) error { return row.Update(ctx, desk.db, name, 57, set, value) }},
			} {
				b.Run(c.name, func(b *testing.B) {
					for n := 0; b.Loop(); n++ {
						require.NoError(b, c.do(b.Context(), string(rune('a'+n%26))))
					}
				})
			}
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
