package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// DirEnv names the environment variable with the directory for failed histories. Without it they
// are written to the system's temporary directory.
const DirEnv = "PAWL_HISTORY_DIR"

// patience is how long Linearizable searches for an order.
const patience = 20 * time.Second

// Check makes both checks and fails the test with their results. It then writes the history to a
// file, and porcupine's visualization to another.
func Check(t testing.TB, ops []Op) {
	t.Helper()
	report, decided := report(t.Name(), ops, patience)
	if report != "" {
		t.Errorf("%s", report)
	}
	if !decided {
		t.Logf("history: of %d operations no order was found within %v, nor that there is none: checked by the intervals alone", len(ops), patience)
	}
}

// Report makes both checks and returns what they find, and where the history was written. It
// returns "" if nothing was found.
func Report(name string, ops []Op) string {
	report, _ := report(name, ops, patience)
	return report
}

// report is Report. decided is false if the search for an order was given up after patience.
func report(name string, ops []Op, patience time.Duration) (_ string, decided bool) {
	bad := Intervals(ops)
	ok, decided, info := Linearizable(ops, patience)
	if len(bad) == 0 && ok {
		return "", decided
	}
	if !ok {
		bad = append(bad, Violation{What: "no order of the operations explains them"})
	}
	var b strings.Builder
	for _, v := range bad {
		fmt.Fprintln(&b, "history:", v)
	}
	file, picture, err := leave(name, ops, bad, info)
	if err != nil {
		fmt.Fprintln(&b, "history: not left in a file:", err)
	} else {
		fmt.Fprintf(&b, "history: left in %s, and a picture in %s\n", file, picture)
	}
	return b.String(), decided
}

// leave writes the history and the visualization.
func leave(name string, ops []Op, bad []Violation, info porcupine.LinearizationInfo) (file, picture string, err error) {
	dir := os.Getenv(DirEnv)
	if dir == "" {
		dir = os.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}
	clean := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\ :`, r) {
			return '_'
		}
		return r
	}, name)
	f, err := os.CreateTemp(dir, "history-"+clean+"-*.json")
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	enc := json.NewEncoder(f)
	enc.SetIndent("", "\t")
	if err := enc.Encode(map[string]any{"test": name, "violations": bad, "history": ops}); err != nil {
		return "", "", err
	}
	picture = strings.TrimSuffix(f.Name(), ".json") + ".html"
	return filepath.Clean(f.Name()), picture, porcupine.VisualizePath(model(), info, picture)
}
