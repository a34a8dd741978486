package cli

import (
	"io"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// widest is the greatest width of a cell that widens its column. A longer cell only moves the rest
// of its row to the right.
const widest = 40

// Gap separates two columns.
const Gap = "  "

// A table is for people to read. Its columns are aligned by the width in which a terminal shows
// them.
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
