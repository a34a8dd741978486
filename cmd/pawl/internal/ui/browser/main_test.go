package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// sideBySide is how many tests run at a time. Each has tabs in a browser context and a cluster to
// itself, and most wait for what the page does in seconds.
const sideBySide = 8

// chromium is started once for all tests.
var chromium struct {
	once    sync.Once
	ctx     context.Context
	cancel  func()
	err     error
	skipped atomic.Bool
}

func TestMain(m *testing.M) {
	testscale.SideBySide(sideBySide)
	code := m.Run()
	if chromium.cancel != nil {
		chromium.cancel()
	}
	if chromium.skipped.Load() {
		const line = "SKIPPED: the page was not tested by test/browser: Chromium is not installed"
		fmt.Fprintln(os.Stderr, line)
		testscale.Skipped(line)
	}
	os.Exit(code)
}

// installed is Chromium's program, or "" if there is none.
func installed() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// browser is a Chromium under way. Without one the test is skipped.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := installed()
	if path == "" {
		if os.Getenv("PAWL_REQUIRE_CHROMIUM") != "" {
			t.Fatal("Chromium is not installed, and PAWL_REQUIRE_CHROMIUM is set")
		}
		chromium.skipped.Store(true)
		t.Skip("Chromium is not installed")
	}
	chromium.once.Do(func() { launch(path) })
	if chromium.err != nil {
		t.Fatalf("Chromium does not start: %v", chromium.err)
	}
	return chromium.ctx
}

// launch starts it with a temporary profile, and with nothing that speaks to the world by itself.
func launch(path string) {
	flags := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WSURLReadTimeout(testscale.Hang),
		chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("force-color-profile", "srgb"),
	)
	flags = append(flags, chromedp.Flag("process-per-site", true)) // or each of a test's many tabs has a process
	if os.Getuid() == 0 {                                          // its sandbox refuses to be root's
		flags = append(flags, chromedp.NoSandbox)
	}
	allocated, cancelAll := chromedp.NewExecAllocator(context.Background(), flags...)
	ctx, cancel := chromedp.NewContext(allocated)
	chromium.ctx, chromium.cancel = ctx, func() {
		cancel() // waits for its end
		cancelAll()
	}
	chromium.err = chromedp.Do(ctx)
}
