package sqlfence

import (
	"errors"

	"github.com/pawl-locks/pawl/fencing/internal/sqltable"
)

// The errors for what is missing.
var (
	// ErrNoTable is matched by the error of a call whose table is missing, where the driver's error
	// can be understood. Fence.Create makes the table.
	ErrNoTable = sqltable.ErrNoTable
	// ErrNoRow is matched by the error of a Row whose row is missing.
	ErrNoRow = errors.New("no such row")
	// ErrNotRegistered is matched by the error of AdmitShared for a token that was not registered.
	ErrNotRegistered = sqltable.ErrNotRegistered
	// ErrBadName is matched by errors that refuse the name of a table or a column.
	ErrBadName = sqltable.ErrBadName
)
