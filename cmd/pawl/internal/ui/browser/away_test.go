package browser

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
)

func TestAfterABrokenConnectionItGoesOnWhereItWas(t *testing.T) {
	s := newSite(t, ui.Options{})
	ann := s.session("ann")
	h := s.holds(ann, "a")
	b := open(t, s.url(), "/", look{})
	b.shows("a", "ann", 0)
	for range 3 {
		s.server.CloseClientConnections()
		require.NoError(t, h.Release(context.Background()))
		b.shows("a", "free", 0)
		h = s.holds(ann, "a")
		b.shows("a", "ann", 0)
	}
	b.sees(`document.querySelectorAll("#rows .hold.released").length === 3`)
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Contains(t, b.asked[len(b.asked)-1], "/api/events?last=", "it asked for what it missed")
}

func TestAfterARestartOfTheServerItShowsTheNewOnes(t *testing.T) {
	s := newSite(t, ui.Options{})
	ann := s.session("ann")
	h := s.holds(ann, "a")
	b := open(t, s.url(), "/", look{})
	b.shows("a", "ann", 0)
	require.NoError(t, h.Release(context.Background()))
	b.ended("a", token(h), "released")
	s.stop()
	b.says("#link", "reconnecting")
	s.holds(ann, "b")
	s.start()
	b.says("#link", "live")
	b.shows("b", "ann", 0)
	b.says("#news", "timeline begins anew")
	b.sees(`document.querySelectorAll("#rows .row").length === 1`)
}

func TestASilentClusterIsSaid(t *testing.T) {
	s := newSite(t, ui.Options{})
	s.holds(s.session("ann"), "a")
	b := open(t, s.url(), "/", look{})
	b.shows("a", "ann", 0)
	b.sees(`document.getElementById("trouble").hidden`)
	s.etcd.BlackHole()
	b.says("#trouble", "may be old: the cluster has not answered")
	b.shows("a", "ann", 0)
	s.etcd.Heal()
	b.sees(`document.getElementById("trouble").hidden`)
}

func TestThousandsOfNamesAreAFewRows(t *testing.T) {
	const n = 5000
	s := newSite(t, ui.Options{})
	for i := range n {
		s.etcd.Put(fmt.Sprintf("app/n%04d/1f-%d", i, i+1), fmt.Sprintf(`{"pawl":"lock","owner":"o%d"}`, i%50), 0)
	}
	b := open(t, s.url(), "/", look{})
	b.says("#count", "5,000 names")
	b.sees(`document.querySelectorAll("#rows .row").length > 10 && document.querySelectorAll("#rows .row").length < 50`)
	b.sees(`document.getElementById("grid").getAttribute("aria-rowcount") === "5001"`)
	b.presses(kb.End)
	b.selected("n4999")
	b.sees(`document.querySelector('[aria-selected="true"]').getAttribute("aria-rowindex") === "5001"`)
	b.presses("/", "n", "4", "2", "4", "2")
	b.sees(`document.querySelectorAll("#rows .row").length === 1`)
	b.shows("n4242", "o42", 0)
	s.etcd.Delete("app/n4242/1f-4243")
	b.shows("n4242", "free", 0)
	b.says("#tally", "4,999 locks")
}
