package browser

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
)

func TestItShowsWhatHappensWhileItHappens(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	ann, bob := s.session("ann"), s.session("bob")
	early := s.holds(ann, "before")
	now := time.Now()
	s.etcd.Put("app///pawl/once/hourly", fmt.Sprintf("%s\nnext %s", now.UTC().Format(time.RFC3339), now.Add(time.Hour).UTC().Format(time.RFC3339)), 0)
	b := open(t, s.url(), "/", look{})
	b.says("#link", "live")
	b.says("#scope", "app/")
	b.says("#mode", "read-only")
	b.shows("before", "ann", 0)

	b.sees(`[...document.querySelectorAll("#rows .row")].some(r => r.textContent.includes("hourly") && r.textContent.includes("next "))`)
	b.value(`[...document.querySelectorAll("#rows .name")].find(n => n.textContent === "hourly").click()`)
	b.says("#details", "Last run")
	b.says("#details", ", in ")
	b.presses(kb.Escape)

	h := s.holds(ann, "backup")
	b.shows("backup", "ann", 0)
	next := s.waits(bob, "backup")
	b.shows("backup", "ann", 1)
	require.NoError(t, h.Release(context.Background()))
	b.shows("backup", "bob", 0)
	b.ended("backup", token(h), "released")
	second := <-next
	s.etcd.Revoke(bob.ID())
	b.shows("backup", "free", 0)
	b.ended("backup", token(second), "lost")
	b.news("backup: lost: lease ended, from bob")
	b.says("#tally", "1 lost")
	assert.Contains(t, b.value(`document.querySelector('#rows [aria-label*="1 released, 1 lost"]')?.ariaLabel`), "last 5m00s: 1 released, 1 lost")

	term := s.leads(ann, "chief", "at desk 7")
	b.shows("chief", "ann", 0)
	require.NoError(t, term.Proclaim(context.Background(), []byte("at desk 8")))
	require.NoError(t, term.Resign(context.Background()))
	b.shows("chief", "free", 0)
	require.NoError(t, early.Release(context.Background()))
	b.shows("before", "free", 0)
}
