package cli

import (
	"io"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// widest is the width up to which a cell counts for its column's: a longer one pushes the
// rest of its own row to the right, and nobody else's.
const widest = 40

// Gap is between two columns.
const Gap = "  "

// A table is for people: columns, aligned by the width that a terminal shows them in.
type table struct {
	out  io.Writer
	rows [][]string
}

func NewTable(out io.Writer, titles ...string) *table {
	t := &table{out: out}
	t.Row(titles...)
	return t
}

func (t *table) Row(cells ...string) {
	for i, c := range cells {
		cells[i] = Plain(c)
	}
	t.rows = append(t.rows, cells)
}

// Write writes all rows.
func (t *table) Write() error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if w := displaywidth.String(cell); w <= widest {
				widths[i] = max(widths[i], w)
			}
		}
	}
	for _, row := range t.rows {
		var b strings.Builder
		for i, cell := range row[:len(row)-1] {
			b.WriteString(Padded(cell, widths[i]) + Gap)
		}
		b.WriteString(row[len(row)-1] + "\n")
		if _, err := io.WriteString(t.out, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// Padded is s, filled up with spaces to a width.
func Padded(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-displaywidth.String(s)))
}
