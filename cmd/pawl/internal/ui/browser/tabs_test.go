package browser

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
)

// A browser opens six connections to a host and no more. If each tab kept one, the seventh would
// never load.
const manyTabs = 9

// streams counts the streams that the tabs have asked for.
func streams(tabs []*tab) (n int) {
	for _, b := range tabs {
		b.mu.Lock()
		for _, url := range b.asked {
			if strings.Contains(url, "/api/events") {
				n++
			}
		}
		b.mu.Unlock()
	}
	return n
}

func TestMoreTabsThanABrowserHasConnectionsAreAllLive(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	ann := s.session("ann")
	s.holds(ann, "a")
	tabs := []*tab{open(t, s.url(), "/", look{})}
	for len(tabs) < manyTabs {
		tabs = append(tabs, tabs[0].beside(s.url(), "/"))
	}
	for _, b := range tabs {
		b.shows("a", "ann", 0)
		b.says("#link", "live")
	}
	h := s.holds(ann, "b")
	for _, b := range tabs {
		b.shows("b", "ann", 0)
	}
	assert.Equal(t, 1, streams(tabs), "they share one stream")

	require.NoError(t, chromedp.Do(tabs[0].ctx, chromedp.Navigate("about:blank"))) // the one that reads the stream
	require.NoError(t, h.Release(context.Background()))
	for _, b := range tabs[1:] {
		b.shows("b", "free", 0)
		b.ended("b", token(h), "released")
	}
	s.holds(ann, "c")
	for _, b := range tabs[1:] {
		b.shows("c", "ann", 0)
		b.says("#link", "live")
	}
}

func TestTabsThatShareAStreamLearnOfARestartAndOfAFailure(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{ProbeEvery: time.Second})
	ann := s.session("ann")
	s.holds(ann, "a")
	first := open(t, s.url(), "/", look{})
	tabs := []*tab{first, first.beside(s.url(), "/"), first.beside(s.url(), "/")}
	for _, b := range tabs {
		b.shows("a", "ann", 0)
	}
	s.stop()
	for _, b := range tabs {
		b.says("#link", "reconnecting")
	}
	s.holds(ann, "b")
	s.start()
	for _, b := range tabs {
		b.says("#link", "live")
		b.shows("b", "ann", 0)
	}
	s.etcd.BlackHole()
	for _, b := range tabs {
		b.says("#link", "stale")
	}
	s.etcd.Heal()
	for _, b := range tabs {
		b.says("#link", "live")
	}
}

func TestAPausedTabLeavesTheOthersTheirStream(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	ann := s.session("ann")
	first := open(t, s.url(), "/", look{})
	second := first.beside(s.url(), "/")
	second.says("#link", "live")
	first.clicks("#pause")
	first.says("#link", "paused")
	s.holds(ann, "a")
	second.shows("a", "ann", 0)
	first.sees(`document.querySelectorAll("#rows .row").length === 0`)
	first.clicks("#pause")
	first.shows("a", "ann", 0)
	first.says("#link", "live")
}
