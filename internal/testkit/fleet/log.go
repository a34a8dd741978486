//go:build unix

package fleet

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/fencing/fencetest"
)

// An entry of a worker's log: one line when an operation begins, one when it ends.
type entry struct {
	N   int    // of the operation, in its log
	ID  string // that a write adds to the value
	End bool
	Op  fencetest.Op // Value is a digest
}

// An actor logs the operations of one process.
type actor struct {
	who string
	out *os.File
	n   int
}

// ErrNotApplied is matched by a Store's errors that say that nothing was done, in addition to
// those of package fencing.
var ErrNotApplied = errors.New("not applied")

// now reads the clock that all processes of the machine share, and that nothing sets.
func now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every unix has it
	}
	return time.Duration(ts.Nano())
}

// do logs an operation before and after.
func (a *actor) do(op fencetest.Op, id string, f func() (value string, err error)) error {
	a.n++
	op.Who, op.Call = a.who, now()
	if op.Kind == fencetest.Write {
		op.Value = digest(op.Value)
	}
	if err := a.write(entry{N: a.n, ID: id, Op: op}); err != nil {
		return err
	}
	value, err := f()
	if op.Kind == fencetest.Read {
		op.Value = digest(value)
	}
	op.Return = now()
	op.Outcome, op.Highest = fencetest.OutcomeOf(err)
	if errors.Is(err, ErrNotApplied) {
		op.Outcome = fencetest.NotApplied
	}
	if logged := a.write(entry{N: a.n, ID: id, End: true, Op: op}); logged != nil {
		return logged
	}
	return err
}

func (a *actor) write(e entry) error {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = a.out.Write(append(line, '\n'))
	}
	return err
}

func digest(value string) string {
	if value == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:12])
}

// readLog returns a log's operations, and the IDs of the acknowledged writes by resource. An
// operation without an end is unknown.
func readLog(path string) (ops []fencetest.Op, acked map[string][]string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	acked = map[string][]string{}
	began := map[int]int{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		var e entry
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			if s.Scan() {
				return nil, nil, fmt.Errorf("%s: %w", path, err)
			}
			break // the last line of one that was killed
		}
		if !e.End {
			e.Op.Return = math.MaxInt64
			began[e.N] = len(ops)
			ops = append(ops, e.Op)
			continue
		}
		ops[began[e.N]] = e.Op
		if e.Op.Kind == fencetest.Write && e.Op.Outcome == fencetest.Applied {
			acked[e.Op.Resource] = append(acked[e.Op.Resource], e.ID)
		}
	}
	return ops, acked, s.Err()
}
