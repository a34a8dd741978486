package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
)

// focused waits until the focus is on what a selector finds.
func (b *tab) focused(selector string) {
	b.Helper()
	b.sees("document.activeElement === document.querySelector(%q)", selector)
}

func TestItCanBeUsedWithTheKeyboardAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	ann := s.session("ann")
	for i := range 30 {
		s.holds(ann, fmt.Sprintf("n%02d", i))
	}
	s.waits(s.session("bob"), "n03")
	b := open(t, s.url(), "/", look{})
	b.shows("n03", "ann", 1)
	b.focused("#grid")
	b.selected("n00")
	b.presses("j", "j", kb.ArrowDown, kb.ArrowDown, "k")
	b.selected("n03")
	b.sees(`document.getElementById(document.getElementById("grid").getAttribute("aria-activedescendant"))?.querySelector(".name").textContent === "n03"`)
	b.sees(`getComputedStyle(document.getElementById("grid")).outlineStyle === "solid"`)

	b.presses(kb.Enter)
	b.says("#details", "1 waiting")
	b.says("#details", "bob")
	b.says("#details", "s of 300 s left")
	b.focused("#details-name")
	b.presses("j")
	b.sees(`document.querySelector("#details h2")?.textContent === "n04"`)
	b.presses(kb.Escape)
	b.sees(`document.getElementById("details").hidden`)
	b.focused("#grid")

	b.presses(kb.End)
	b.selected("n29")
	b.sees(`(r => r.bottom <= document.getElementById("grid").getBoundingClientRect().bottom + 1)(document.querySelector('[aria-selected="true"]').getBoundingClientRect())`)
	b.presses(kb.Home, kb.PageDown)
	b.sees(`Number(document.querySelector('[aria-selected="true"]').getAttribute("aria-rowindex")) > 8`)

	b.presses("+")
	b.sees(`document.getElementById("window").value === "60"`)
	b.presses("-", "-")
	b.sees(`document.getElementById("window").value === "900"`)
	b.presses("s")
	b.sees(`document.getElementById("sort").value === "waiting"`)
	b.sees(`document.querySelector('#rows .row[aria-rowindex="2"] .name').textContent === "n03"`)

	b.presses("?")
	b.sees(`document.getElementById("help").open`)
	before := b.value(`document.querySelector('[aria-selected="true"] .name').textContent`)
	b.presses("j")
	assert.Equal(t, before, b.value(`document.querySelector('[aria-selected="true"] .name').textContent`), "a dialog has the keys")
	b.presses(kb.Escape)
	b.sees(`!document.getElementById("help").open`)
}

func TestTheTabKeyReachesEveryControl(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	s.holds(s.session("ann"), "a")
	b := open(t, s.url(), "/", look{})
	b.shows("a", "ann", 0)
	b.presses(kb.Enter)
	b.focused("#details-name")
	seen := map[string]bool{}
	for range 12 {
		b.presses(kb.Tab)
		seen[b.value(`(e => e.id || e.name || e.dataset.focus || e.tagName)(document.activeElement)`)] = true
	}
	for _, want := range []string{"filter", "kind", "sort", "window", "pause", "help-button", "grid", "close"} {
		assert.True(t, seen[want], "%s is not reached: %v", want, seen)
	}
}

func TestFilterAndKindsPickQueues(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	ann, bob := s.session("ann"), s.session("bob")
	s.holds(ann, "reports/daily")
	s.holds(bob, "reports/weekly")
	lost := s.session("eve")
	s.holds(lost, "backup")
	s.leads(ann, "chief", "v")
	s.waits(bob, "reports/daily")
	b := open(t, s.url(), "/", look{})
	b.shows("reports/daily", "ann", 1)
	s.etcd.Revoke(lost.ID())
	b.shows("backup", "free", 0)
	names := func(want string) {
		t.Helper()
		b.sees(`[...document.querySelectorAll("#rows .row")].sort((x, y) => x.getAttribute("aria-rowindex") - y.getAttribute("aria-rowindex")).map(r => r.querySelector(".name").textContent).join(" ") === %q`, want)
	}
	names("backup chief reports/daily reports/weekly")
	b.presses("/", "R", "e", "p", " ", "b", "o", "b")
	names("reports/daily reports/weekly")
	b.says("#count", "2 of 4 names")
	b.presses("x", kb.Enter)
	names("")
	b.says("#empty", "Nothing here fits")
	b.focused("#grid")
	b.presses(kb.Escape)
	names("backup chief reports/daily reports/weekly")
	for key, want := range map[string]string{"2": "reports/daily reports/weekly backup", "3": "chief", "4": "reports/daily", "5": "backup"} {
		b.presses(key)
		if key == "2" {
			want = "backup reports/daily reports/weekly"
		}
		names(want)
	}
	b.presses("1")
	names("backup chief reports/daily reports/weekly")
}

func TestAPausedPageStandsStillAndGoesOnWithWhatItMissed(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	ann := s.session("ann")
	s.holds(ann, "a")
	b := open(t, s.url(), "/", look{})
	b.shows("a", "ann", 0)
	b.presses("p")
	b.says("#link", "paused")
	b.sees(`document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
	s.holds(ann, "b")
	second := open(t, s.url(), "/", look{})
	second.shows("b", "ann", 0) // so the page has been updated
	assert.NotContains(t, b.text("#rows"), "b\n")
	b.sees(`document.querySelectorAll("#rows .row").length === 1`)
	b.presses("p")
	b.says("#link", "live")
	b.shows("b", "ann", 0)
}
