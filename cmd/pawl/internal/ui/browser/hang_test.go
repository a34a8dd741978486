package browser

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// hanging answers nothing for one path while it is to hang, and passes everything else on.
type hanging struct {
	http.Handler
	mu   sync.Mutex
	path string        // or ""
	hung chan struct{} // one for each request that hangs
}

func (h *hanging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	hangs := h.path != "" && strings.HasSuffix(r.URL.Path, h.path)
	h.mu.Unlock()
	if !hangs {
		h.Handler.ServeHTTP(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // or nobody learns that the page has gone
	h.hung <- struct{}{}
	<-r.Context().Done()
}

func (h *hanging) set(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.path = path
}

// late has the limits of requests run out when the test says so, and not by a clock.
const late = `if (!window.limits) {
	window.limits = [];
	AbortSignal.timeout = () => {
		const c = new AbortController();
		limits.push(() => c.abort(new DOMException("signal timed out", "TimeoutError")));
		return c.signal;
	};
}`

// Each request of the page's that hangs ends, and is not its last one. The connection is a tunnel's
// that takes the request and delivers nothing.
func TestARequestThatHangsIsNotTheLastOne(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]struct {
		begin func(s *site, b *tab) *tab // makes the page send it; the tab that does
		after func(s *site, b *tab)      // what is seen once it has ended, and works again
	}{
		"shards": {
			func(_ *site, b *tab) *tab { return b },
			func(s *site, b *tab) {
				s.works("orders", "ann", 4)
				b.sees(`document.querySelector("#shards summary")?.innerText === "orders 4 shards, 1 worker"`)
			},
		},
		"leases": {
			func(_ *site, b *tab) *tab {
				b.selected("backup")
				b.presses(kb.Enter)
				return b
			},
			func(_ *site, b *tab) { b.says("#details", "s of 300 s left") },
		},
		"state": {
			func(s *site, b *tab) *tab { return b.beside(s.url(), "/") },
			func(s *site, b *tab) {
				s.holds(s.session("bob"), "other")
				b.shows("other", "bob", 0)
				b.says("#link", "live")
			},
		},
		"key": {
			func(s *site, b *tab) *tab {
				b.value(`window.old = true, location.reload()`)
				b.sees(`!window.old`)
				return b
			},
			func(_ *site, b *tab) { b.says("#mode", "break allowed") },
		},
		"break": {
			func(_ *site, b *tab) *tab {
				b.says("#mode", "break allowed")
				b.presses("b", kb.Tab)
				b.focused("#break-yes")
				b.presses(kb.Enter)
				return b
			},
			func(_ *site, b *tab) {
				b.says("#break-wrong", "No answer came: signal timed out. See whether it still holds.")
				b.presses(kb.Escape)
				b.shows("backup", "ann", 0)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, ui.Options{Token: "KEY"})
			h := &hanging{Handler: s.page, hung: make(chan struct{}, 100)}
			s.server.Config.Handler = h
			s.holds(s.session("ann"), "backup")
			b := open(t, s.url(), "/#key=KEY", look{script: late})
			b.shows("backup", "ann", 0)
			h.set("/api/" + name)
			b = play.begin(s, b)
			select {
			case <-h.hung:
			case <-time.After(testscale.Hang):
				require.Fail(t, "it is not sent")
			}
			h.set("")
			b.value(`limits.splice(0).forEach((end) => end())`)
			play.after(s, b)
		})
	}
}
