// Package repo tests what is true of the repository as a whole: what its packages import, what its
// documents say, and what no log, event or error ever shows.
package repo_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// The tests name files by their paths in the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	leaks.VerifyTestMain(m)
}

func dial(t *testing.T, fake *etcdfake.Cluster, cfg pawl.Config) *pawl.Client {
	t.Helper()
	cfg.Endpoints = fake.Endpoints()
	cfg.DialOptions = append(cfg.DialOptions, fake.DialOption())
	c, err := pawl.Dial(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
