package browser

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
	"github.com/pawl-locks/pawl/lock"
)

// faults finds what the common checkers of accessibility look for: names of
// controls, landmarks, headings in order, unique ids, references that lead
// somewhere, the parts that a grid must have, and contrast of all text in sight.
const faults = `(() => {
	const out = [], seen = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
	const name = (e) => e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") && document.getElementById(e.getAttribute("aria-labelledby"))?.textContent)
		|| [...(e.labels ?? [])].map((l) => l.textContent.trim()).join("") || e.textContent.trim();
	for (const e of document.querySelectorAll("button, input, select, [role=grid], dialog[open], aside"))
		if (seen(e) && !name(e)) out.push("no name: " + e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt")) out.push("no alt");
	for (const tag of ["header", "main", "footer", "h1"]) if (document.querySelectorAll("body > " + tag + ", body > header > " + tag).length !== 1) out.push("not one " + tag);
	let level = 0;
	for (const h of document.querySelectorAll("h1, h2, h3")) if (seen(h) || h.tagName === "H1") {
		if (h.tagName[1] - level > 1) out.push("a heading is skipped before " + h.textContent);
		level = Number(h.tagName[1]);
	}
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	for (const id of ids) if (ids.filter((x) => x === id).length > 1) out.push("twice: " + id);
	for (const a of ["aria-labelledby", "aria-describedby", "aria-activedescendant", "aria-controls"])
		for (const e of document.querySelectorAll("[" + a + "]")) if (seen(e) && !document.getElementById(e.getAttribute(a))) out.push(a + " leads nowhere: " + e.getAttribute(a));
	const inside = { row: "rowgroup", gridcell: "row", columnheader: "row", rowgroup: "grid" };
	for (const [role, parent] of Object.entries(inside))
		for (const e of document.querySelectorAll("[role=" + role + "]")) if (e.parentElement.getAttribute("role") !== parent) out.push(role + " is not in a " + parent);
	for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) out.push("tabindex above 0");
	if (!document.documentElement.lang) out.push("no language");

	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const over = (colour, under) => {
		canvas.fillStyle = "rgb(" + under.join(",") + ")";
		canvas.fillRect(0, 0, 1, 1);
		canvas.fillStyle = colour;
		canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
	};
	const ground = (e) => e ? over(getComputedStyle(e).backgroundColor, ground(e.parentElement)) : [255, 255, 255];
	const light = (c) => c.map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; (n = walk.nextNode()); ) {
		const e = n.parentElement;
		if (!n.data.trim() || !seen(e) || e.closest(".unseen-label, noscript, :disabled, svg")) continue;
		const under = ground(e), [a, b] = [light(over(getComputedStyle(e).color, under)), light(under)].sort((x, y) => y - x);
		const ratio = (a + .05) / (b + .05);
		if (ratio < 4.5) out.push("contrast " + ratio.toFixed(2) + " of " + e.className + ": " + n.data.slice(0, 30));
	}
	return [...new Set(out)].join("\n");
})()`

func TestItIsAccessibleInBothSchemes(t *testing.T) {
	t.Parallel()
	for _, dark := range []bool{false, true} {
		s := newSite(t, ui.Options{Token: "KEY"})
		ann, bob := s.session("ann"), s.session("bob")
		for _, owner := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} { // all colours
			s.holds(s.session(owner), "of-"+owner)
		}
		s.holds(ann, "backup")
		s.waits(bob, "backup")
		require.NoError(t, lock.New(bob, "x", lock.Options{}).Do(t.Context(), noWork))
		s.etcd.Put("app/foreign/readme", "", 0)
		s.etcd.Put("app/foreign/1f-1", `{"pawl":"lock"}`, 0)
		b := open(t, s.url(), "/#key=KEY", look{dark: dark})
		b.shows("backup", "ann", 1)
		s.etcd.Revoke(ann.ID())
		b.shows("backup", "bob", 0)
		assert.Empty(t, b.value(faults))
		b.presses("j", "k")
		b.value(`[...document.querySelectorAll("#rows .name")].find(n => n.textContent === "backup").click()`)
		b.sees(`document.querySelector("#details .past.lost")`)
		assert.Empty(t, b.value(faults))
		b.says("#mode", "break allowed")
		b.presses("b")
		b.sees(`document.getElementById("break").open`)
		assert.Empty(t, b.value(faults))
		b.clicks("#break-no")
		b.presses("?")
		b.sees(`document.getElementById("help").open`)
		assert.Empty(t, b.value(faults))
	}
}

func TestItFollowsTheColourScheme(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	ground := func(dark bool) string {
		b := open(t, s.url(), "/", look{dark: dark})
		b.says("#link", "live")
		return b.value("getComputedStyle(document.body).backgroundColor")
	}
	assert.NotEqual(t, ground(false), ground(true))
}

func TestOnANarrowScreenNothingIsWiderThanIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	s.holds(s.session("ann"), "a-name-that-is-rather-long/and-goes-on-for-a-while/until-it-does-not-fit")
	b := open(t, s.url(), "/", look{width: 360, height: 740})
	b.says("#rows", "ann")
	b.clicks("#rows .row")
	b.sees(`!document.getElementById("details").hidden`)
	b.sees(`document.documentElement.scrollWidth <= 360`)
	b.sees(`document.getElementById("grid").scrollWidth <= document.getElementById("grid").clientWidth`)
}
