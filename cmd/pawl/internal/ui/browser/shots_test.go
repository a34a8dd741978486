package browser

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
)

var (
	shots = flag.String("shots", "", "directory that pictures of the page are written to; none: it is not done")
	scene = flag.Duration("scene", 58*time.Second, "how long the scene in them plays")
)

// TestPictures plays a scene, and takes pictures of it: see make screenshots.
func TestPictures(t *testing.T) {
	if *shots == "" {
		t.Skip("pictures are made by make screenshots")
	}
	const key = "ABC"
	s := newSite(t, ui.Options{Token: key, By: "kim@ops-1"})
	tabs := map[string]*tab{}
	for scheme, dark := range map[string]bool{"light": false, "dark": true} {
		b := open(t, s.url(), "/#key="+key, look{dark: dark, scale: 1.5, width: 1280, height: 840})
		b.says("#link", "live")
		b.value(`(w => { w.value = "60"; w.dispatchEvent(new Event("change")) })(document.getElementById("window"))`)
		tabs[scheme] = b
	}
	newScene(s, *scene).play()
	for scheme, b := range tabs {
		b.shows("deploy", "ci-runner-7", 2)
		b.sees(`document.getElementById("news").textContent === ""`)
		b.picture("overview-" + scheme)
		b.value(`[...document.querySelectorAll("#rows .name")].find(n => n.textContent === "reports/daily").click()`)
		b.says("#details", "s of 60 s left")
		b.presses("p") // so that the two that follow show the same moment
		b.sees(`document.querySelector("#details .past.lost")`)
		b.picture("details-" + scheme)
		b.says("#mode", "break allowed")
		b.presses("b")
		b.sees(`document.getElementById("break").open`)
		b.picture("break-" + scheme)
	}
	narrow := open(t, s.url(), "/", look{scale: 1.5, width: 420, height: 800})
	narrow.says("#link", "live")
	narrow.picture("narrow-light")
}

// picture writes what is seen now.
func (b *tab) picture(name string) {
	b.Helper()
	b.sees(`document.fonts.status === "loaded"`)
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b, err)
	require.NoError(b, os.MkdirAll(*shots, 0o755))
	require.NoError(b, os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o644))
}

// play plays all parts of a scene at once.
func (s *sceneOf) play() {
	ctx, cancel := context.WithTimeout(context.Background(), s.length)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range s.parts {
		all.Go(func() { p.play(ctx) })
	}
	all.Wait()
}
