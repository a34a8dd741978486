package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
	"github.com/pawl-locks/pawl/lock"
)

func TestAHolderIsBrokenAfterAQuestion(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{Token: "KEY", By: "carol@desk"})
	h := s.holds(s.session("ann"), "backup")
	s.waits(s.session("bob"), "backup")
	b := open(t, s.url(), "/#key=KEY", look{})
	b.shows("backup", "ann", 1)
	b.says("#mode", "break allowed")
	assert.Equal(t, s.url()+"/", b.value("location.href"), "the key does not stay in the address")

	b.presses("b")
	b.sees(`document.getElementById("break").open`)
	b.says("#break", "Break the lock backup?")
	b.says("#break", "This evicts ann")
	b.says("#break", "next is bob")
	b.focused("#break-no")
	b.presses(kb.Enter)
	b.sees(`!document.getElementById("break").open`)
	assert.NoError(t, h.Err(), "no is no")

	b.presses("b", kb.Tab)
	b.focused("#break-yes")
	b.presses(kb.Enter)
	<-h.Done()
	assert.ErrorIs(t, h.Err(), lock.ErrKeyDeleted)
	b.shows("backup", "bob", 0)
	b.ended("backup", token(h), "broken")
	b.sees(`!document.getElementById("break").open`) // the answer to the question closes it
	b.presses(kb.Enter)
	b.says("#details", "lost: broken by carol@desk")

	b.value(`window.old = true, location.reload()`)
	b.sees(`!window.old`)
	b.says("#mode", "break allowed") // this tab still has the key

	s.stop() // its key goes with it
	s.opts.Token = "ANOTHER"
	s.start()
	b.news("timeline begins again")
	b.says("#mode", "read-only")
}

func TestWhoIsNotThereAnyMoreIsNotBroken(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{Token: "KEY"})
	h := s.holds(s.session("ann"), "backup")
	next := s.waits(s.session("bob"), "backup")
	b := open(t, s.url(), "/#key=KEY", look{})
	b.shows("backup", "ann", 1)
	b.says("#mode", "break allowed")
	b.presses("b")
	b.says("#break", "This evicts ann")
	s.etcd.Delete(h.Key())
	b.shows("backup", "bob", 0)
	b.clicks("#break-yes")
	b.says("#break-wrong", "nothing was done")
	assert.NoError(t, (<-next).Err(), "the next holder was not asked about")
}

func TestWithoutTheFlagOrTheKeyThePageIsReadOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ token, path, says string }{
		{"", "/", "start it with --allow-break"},
		{"", "/#key=KEY", "start it with --allow-break"},
		{"KEY", "/", "open the whole address"},
		{"KEY", "/#key=WRONG", "open the whole address"},
	} {
		s := newSite(t, ui.Options{Token: c.token})
		h := s.holds(s.session("ann"), "backup")
		b := open(t, s.url(), c.path, look{})
		b.shows("backup", "ann", 0)
		b.says("#mode", "read-only")
		b.presses("b")
		b.news(c.says)
		b.sees(`!document.getElementById("break").open`)
		b.presses(kb.Enter)
		b.says("#details", "ann")
		b.sees(`![...document.querySelectorAll("button")].some(e => e.checkVisibility() && e.textContent.includes("Break"))`)
		assert.NoError(t, h.Err())
	}
}
