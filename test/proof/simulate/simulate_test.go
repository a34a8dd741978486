package simulate

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

func TestMain(m *testing.M) {
	session.Check = func(broken string) { // the session's mutex is held, so no test could end
		fmt.Fprintf(os.Stderr, "a broken invariant: %s\n%s", broken, debug.Stack())
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// number reads a number from the environment.
func number(t *testing.T, variable string, otherwise uint64) uint64 {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, variable)
	return n
}

// simulate runs n scenarios, starting at seed first, on all cores.
func simulate(t *testing.T, first, n uint64, kinds []string, start func(*testing.T, *scenario) server) {
	var next, ran atomic.Uint64
	t.Run("group", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("worker", func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1) - 1; i < n && !t.Failed(); i = next.Add(1) - 1 {
					runOne(t, Make(first+i, kinds), start)
					ran.Add(1)
				}
			})
		}
	})
	t.Logf("%d scenarios from seed %d on", ran.Load(), first)
}

func runOne(t *testing.T, plan Plan, start func(*testing.T, *scenario) server) {
	if os.Getenv("PAWL_SEED") != "" {
		fmt.Print(plan)
	}
	if report := Run(t, plan, start); report != "" {
		test, _, _ := strings.Cut(t.Name(), "/")
		t.Errorf("%v\n%s\nagain with: PAWL_SEED=%d go test -count=1 -v -run '^%s$' ./test/proof/simulate", plan, report, plan.Seed, test)
	}
}

// rule: SM1, SM3, SH2
func TestRandomFaultsOnTheClusterInMemory(t *testing.T) {
	run(t, testscale.Of[uint64](48, 9000), 9, fakeKinds, OnFake)
}

// run runs the one scenario that PAWL_SEED asks for; or so many tenths of as many as
// PAWL_SIMULATE says; or as many as the lane has.
func run(t *testing.T, n, tenths uint64, kinds []string, start func(*testing.T, *scenario) server) {
	if os.Getenv("PAWL_SEED") != "" {
		runOne(t, Make(number(t, "PAWL_SEED", 0), kinds), start)
		return
	}
	if asked := number(t, "PAWL_SIMULATE", 0) * tenths / 10; asked > 0 {
		n = asked
	} else {
		n = max(n/slower, 3)
	}
	simulate(t, number(t, "PAWL_FIRST_SEED", 1), n, kinds, start)
}

func TestASeedDecidesItsFaults(t *testing.T) {
	assert.Equal(t, Make(7, fakeKinds), Make(7, fakeKinds))
	assert.NotEqual(t, Make(7, fakeKinds).Strikes, Make(8, fakeKinds).Strikes)
	assert.Contains(t, Make(7, fakeKinds).String(), "seed 7")
}

func TestRandomFaultsOnARealServer(t *testing.T) {
	run(t, testscale.Of[uint64](8, 1000), 1, soloKinds, OnSolo)
}
