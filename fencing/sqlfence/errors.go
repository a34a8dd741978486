package sqlfence

import (
	"errors"
	"fmt"
	"strings"
)

// What is not there.
var (
	// ErrNoTable is matched by the error of a call whose table is missing, where the driver's error can be understood. Fence.Create makes the table.
	ErrNoTable = errors.New("no such table; has Create been called?")
	// ErrNoRow is matched by the error of a Row whose row is missing.
	ErrNoRow = errors.New("no such row")
)

var (
	errNilContext = errors.New("nil context")
	errNilDB      = errors.New("nil database")
	errNilTx      = errors.New("nil transaction")
)

// missing adds ErrNoTable to a driver's error that says so. No driver is imported: PostgreSQL's have a method for the SQLSTATE, the others
// are told by their text. An error that is not recognised is still an error.
func missing(err error, table string) error {
	state := ""
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		state = s.SQLState()
	}
	text := err.Error()
	if state == "42P01" || strings.Contains(text, "no such table") || strings.Contains(text, "(42S02)") {
		return fmt.Errorf("%s: %w: %w", table, ErrNoTable, err)
	}
	return err
}
