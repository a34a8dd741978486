package browser

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
)

func TestAfterABrokenConnectionItGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
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
	streams := slices.DeleteFunc(slices.Clone(b.asked), func(url string) bool { return !strings.Contains(url, "/api/events") })
	assert.Contains(t, streams[len(streams)-1], "/api/events?last=", "it asked for what it missed")
}

func TestAfterARestartOfTheServerItShowsTheNewOnes(t *testing.T) {
	t.Parallel()
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
	b.news("timeline begins again")
	b.sees(`document.querySelectorAll("#rows .row").length === 1`)
}

func TestASilentClusterIsSaid(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{ProbeEvery: time.Second})
	s.holds(s.session("ann"), "a")
	b := open(t, s.url(), "/", look{})
	b.shows("a", "ann", 0)
	b.sees(`document.getElementById("failure").hidden`)
	s.etcd.BlackHole()
	b.says("#failure", "may be old: the cluster does not answer")
	b.says("#link", "stale")
	b.shows("a", "ann", 0)
	before := b.text("#failure-for")
	b.sees(`document.getElementById("failure-for").innerText !== %q`, before)
	s.etcd.Heal()
	b.says("#link", "live")
	b.sees(`document.getElementById("failure").hidden`)
}

func TestARestartKeepsSinceWhenAHoldHasLasted(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	began := time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)
	s.etcd.Put("app/a/1f-1", `{"pawl":"lock","owner":"ann","since":"`+began+`"}`, 0)
	s.stop()
	s.start() // it finds the key there
	b := open(t, s.url(), "/", look{})
	b.shows("a", "ann", 0)
	b.says("#rows .c-for", "≤ 2h00m")
	s.stop()
	s.start()
	b.news("timeline begins again")
	b.says("#rows .c-for", "≤ 2h00m")
}

func TestNamesOfSpacesAreVisible(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	s.holds(s.session("ann"), " ")
	s.holds(s.session("bob"), " a  b ")
	b := open(t, s.url(), "/", look{})
	b.sees(`[...document.querySelectorAll("#rows .name")].map(e => e.textContent).join("|") === "\\u{20}|\\u{20}a \\u{20}b\\u{20}"`)
}

func TestThousandsOfNamesAreAFewRows(t *testing.T) {
	t.Parallel()
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
