package browser

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
	"github.com/pawl-locks/pawl/lock"
)

func (s *site) reads(session *pawl.Session, name string) *lock.Held {
	s.Helper()
	h, err := lock.New(session, name, lock.Options{}).AcquireShared(context.Background())
	require.NoError(s, err)
	return h
}

func (s *site) permit(session *pawl.Session, name string, limit int) *lock.Held {
	s.Helper()
	p, err := lock.NewSemaphore(session, name, limit, lock.Options{}).Acquire(context.Background())
	require.NoError(s, err)
	return p
}

func (s *site) set(session *pawl.Session, wants ...lock.Want) *lock.Held {
	s.Helper()
	h, err := lock.NewMulti(session, lock.Options{}, wants...).Acquire(context.Background())
	require.NoError(s, err)
	return h
}

// details opens those of a name.
func (b *tab) details(name string) {
	b.Helper()
	b.sees(`[...document.querySelectorAll("#rows .name")].some(n => n.textContent === %q)`, name)
	b.value(fmt.Sprintf(`[...document.querySelectorAll("#rows .name")].find(n => n.textContent === %q).click()`, name))
	b.sees(`document.querySelector("#details h2")?.textContent === %q`, name)
}

// tabled waits until a table of the details has these rows: the first cells, joined by "|".
func (b *tab) tabled(caption string, cells int, rows ...string) {
	b.Helper()
	b.sees(`JSON.stringify([...document.querySelectorAll("#details table")].filter(t => t.caption.textContent === %q)
		.flatMap(t => [...t.querySelectorAll("tbody tr")].map(r => [...r.cells].slice(0, %d).map(c => c.innerText.trim()).join("|")))) === JSON.stringify(%s)`,
		caption, cells, list(rows))
}

// list is rows in JavaScript.
func list(rows []string) string {
	s := "["
	for _, r := range rows {
		s += fmt.Sprintf("%q,", r)
	}
	return s + "]"
}

func TestReadersAreShownTogetherAndBreakingOneFreesOnlyIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{Token: "KEY", By: "carol@desk"})
	ann, bob, cat := s.reads(s.session("ann"), "docs"), s.reads(s.session("bob"), "docs"), s.reads(s.session("cat"), "docs")
	writer := s.waits(s.session("dan"), "docs")
	b := open(t, s.url(), "/#key=KEY", look{})
	b.shows("docs", "ann and 2 other readers", 1)
	b.says("#mode", "break allowed")
	b.presses("b")
	b.news("It has several holders: choose one in the details.")
	b.sees(`!document.getElementById("break").open`)

	b.details("docs")
	b.says("#details .what", "lock: 3 readers, 1 writer waiting")
	b.tabled("Who holds it", 2, "ann|"+token(ann), "bob|"+token(bob), "cat|"+token(cat))
	b.tabled("Who waits, in order", 2, "1|dan")
	b.sees(`document.querySelectorAll("#rows .hold.held").length === 3`)

	b.clicks(`[data-focus="break-` + token(bob) + `"]`)
	b.says("#break", "This evicts bob")
	b.says("#break", "token "+token(bob))
	b.says("#break", "next is dan")
	b.clicks("#break-yes")
	<-bob.Done()
	assert.ErrorIs(t, bob.Err(), lock.ErrKeyDeleted)
	b.shows("docs", "ann and 1 other reader", 1)
	b.ended("docs", token(bob), "broken")
	b.says("#details .what", "lock: 2 readers, 1 writer waiting")
	b.tabled("Who holds it", 2, "ann|"+token(ann), "cat|"+token(cat))
	assert.NoError(t, ann.Err())
	assert.NoError(t, cat.Err())
	require.Empty(t, writer, "the writer waits for the other readers")

	require.NoError(t, ann.Release(t.Context()))
	b.shows("docs", "cat (reader)", 1)
	b.says("#details .facts", "shared")
	require.NoError(t, cat.Release(t.Context()))
	b.shows("docs", "dan", 0)
	assert.NoError(t, (<-writer).Err())
	assert.Empty(t, b.value(faults))
}

func TestAReaderThatWaitsIsMarked(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	s.holds(s.session("ann"), "docs")
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	bob := s.session("bob")
	go func() { _, _ = lock.New(bob, "docs", lock.Options{}).AcquireShared(ctx) }() // ends with the test
	b := open(t, s.url(), "/", look{})
	b.shows("docs", "ann", 1)
	b.details("docs")
	b.says("#details .what", "lock: 1 writer, 1 reader waiting")
	b.tabled("Who waits, in order", 2, "1|bob (reader)")
}

func TestSlotsAreNumberedAndOneIsBrokenByItsNumber(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{Token: "KEY"})
	ann, bob := s.permit(s.session("ann"), "gpu", 3), s.permit(s.session("bob"), "gpu", 3)
	b := open(t, s.url(), "/#key=KEY", look{})
	b.shows("gpu", "ann and 1 other, 2 of 3 slots", 0)
	cat := s.permit(s.session("cat"), "gpu", 3)
	waits, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	dan, next := s.session("dan"), make(chan *lock.Held, 1)
	go func() { // ends with its turn, or the test
		if p, err := lock.NewSemaphore(dan, "gpu", 3, lock.Options{}).Acquire(waits); err == nil {
			next <- p
		}
	}()
	b.shows("gpu", "ann and 2 others, 3 of 3 slots", 1)
	b.says("#mode", "break allowed")
	b.details("gpu")
	b.says("#details .what", "semaphore: 3 of 3 slots, 1 waiting")
	of := func(slot int, who string, p *lock.Held) string {
		return fmt.Sprintf("%d|%s|%d", slot, who, p.Token())
	}
	b.tabled("Who holds it", 3, of(0, "ann", ann), of(1, "bob", bob), of(2, "cat", cat))
	b.tabled("Who waits, in order", 3, "1|dan|–")

	b.clicks(fmt.Sprintf(`[data-focus="break-%d"]`, bob.Token()))
	b.says("#break", "This evicts bob")
	b.says("#break", "slot 1")
	b.presses(kb.Tab)
	b.focused("#break-yes")
	b.presses(kb.Enter)
	<-bob.Done()
	p := <-next
	assert.Equal(t, 1, p.Slot())
	b.tabled("Who holds it", 3, of(0, "ann", ann), of(1, "dan", p), of(2, "cat", cat))
	assert.NoError(t, ann.Err())
	assert.NoError(t, cat.Err())
	b.ended("gpu", fmt.Sprint(int64(bob.Token())), "broken")

	for _, h := range []*lock.Held{ann, cat} {
		require.NoError(t, h.Release(t.Context()))
	}
	b.shows("gpu", "dan, 1 of 3 slots", 0)
	b.says("#details .facts", "slot 1")
	b.sees(`document.querySelectorAll("#rows .hold.lost").length === 0`) // a take is no loss, and a turnstile key no hold
}

func TestASetIsShownWithItsOtherNamesAndBrokenAsAWhole(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{Token: "KEY"})
	h := s.set(s.session("ann"), lock.Exclusive("a"), lock.Exclusive("b"), lock.Shared("c"))
	other := s.reads(s.session("bob"), "c")
	b := open(t, s.url(), "/#key=KEY", look{})
	b.shows("a", "ann, with b, c", 0)
	b.shows("b", "ann, with a, c", 0)
	b.shows("c", "ann and 1 other reader", 0)
	b.says("#mode", "break allowed")
	b.details("c")
	b.tabled("Who holds it", 1, "ann, with a, b", "bob")
	b.details("a")
	b.says("#details .facts", "all or none, with b, c")
	b.presses("b")
	b.says("#break", "It loses all of its names: this one, with b, c.")
	b.clicks("#break-yes")
	<-h.Done()
	assert.ErrorIs(t, h.Err(), lock.ErrKeyDeleted)
	b.shows("a", "free", 0)
	b.shows("b", "ann, with a, c", 0) // until it has seen the loss through
	assert.ErrorIs(t, h.Release(t.Context()), lock.ErrLost)
	b.shows("b", "free", 0)
	b.shows("c", "bob (reader)", 0)
	assert.NoError(t, other.Err())
}
