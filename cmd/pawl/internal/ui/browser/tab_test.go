package browser

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// A tab is a page in a browser that has seen nothing before.
type tab struct {
	*testing.T
	ctx    context.Context
	script string

	mu    sync.Mutex
	asked []string // what it requested
	wrong []string // exceptions, and complaints of the browser
}

// look is how a tab is set up.
type look struct {
	dark          bool
	width, height int64
	scale         float64
	script        string // run before the page's own
}

// open opens an address. At the test's end it must have asked nobody but base for
// anything, and nothing may have gone wrong in it.
func open(t *testing.T, base, path string, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser(t), chromedp.WithNewBrowserContext())
	return openIn(t, ctx, cancel, base, path, l)
}

// beside opens an address in another tab of the same browser.
func (b *tab) beside(base, path string) *tab {
	b.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	return openIn(b.T, ctx, cancel, base, path, look{script: b.script})
}

func openIn(t *testing.T, ctx context.Context, cancel func(), base, path string, l look) *tab {
	t.Helper()
	b := &tab{T: t, ctx: ctx, script: l.script}
	t.Cleanup(func() {
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, url := range b.asked {
			assert.True(t, strings.HasPrefix(url, base+"/"), "it asked for %s", url)
		}
		assert.NotEmpty(t, b.asked)
		assert.Empty(t, b.wrong)
	})
	require.NoError(t, chromedp.Listen(ctx, b.hear))
	if l.width == 0 {
		l.width, l.height = 1280, 800
	}
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	opening, done := context.WithTimeout(ctx, testscale.Hang)
	defer done()
	noting := func(ctx context.Context, t *chromedp.Target) (done chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: notes + l.script})
		return done, err
	}
	require.NoError(t, chromedp.Do(opening, calls(network.Enable, network.EnableParams{}), calls(log.Enable, cdp.Empty{}), calls(runtime.Enable, cdp.Empty{}), calls(page.Enable, page.EnableParams{}), noting,
		chromedp.EmulateViewport(l.width, l.height, chromedp.EmulateScale(max(1, l.scale))),
		calls(emulation.SetEmulatedMedia, media), chromedp.Navigate(base+path)))
	return b
}

// notes keeps all that #news has said, which passes.
const notes = `window.noted = [];
new MutationObserver((all) => {
	for (const m of all) if (m.target.id === "news") for (const n of m.addedNodes) noted.push(n.textContent);
}).observe(document, { subtree: true, childList: true });`

// calls is a command of the browser's as a step.
func calls[P any](c cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		return cdp.Call(ctx, t, c, params)
	}
}

func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.Exception.Description))
	case *log.EventEntryAdded: // a refused request is the page's own affair
		if e.Entry.Source != log.EntrySourceNetwork && e.Entry.Level == log.EntryLevelError {
			b.wrong = append(b.wrong, e.Entry.Text)
		}
	}
}

// sees waits until an expression is true.
func (b *tab) sees(expression string, args ...any) {
	b.Helper()
	expression = fmt.Sprintf(expression, args...)
	ctx, cancel := context.WithTimeout(b.ctx, testscale.Hang)
	defer cancel()
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && is {
			return
		}
		if ctx.Err() != nil {
			require.FailNow(b, "never seen: "+expression, "%v\n%s", err, b.text("body"))
		}
		time.Sleep(100 * time.Millisecond) // between two looks
	}
}

// value is an expression's value, as text.
func (b *tab) value(expression string) string {
	b.Helper()
	s, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	require.NoError(b, err, expression)
	return s
}

// text is what an element says.
func (b *tab) text(selector string) string {
	b.Helper()
	return b.value(fmt.Sprintf("document.querySelector(%q)?.innerText", selector))
}

// says waits until an element's text contains what.
func (b *tab) says(selector, what string) {
	b.Helper()
	b.sees("document.querySelector(%q)?.innerText.includes(%q)", selector, what)
}

// news waits until #news has said what, since the page was loaded. It may have passed.
func (b *tab) news(what string) {
	b.Helper()
	b.sees("noted.some((n) => n.includes(%q))", what)
}

// presses keys, one after the other.
func (b *tab) presses(keys ...string) {
	b.Helper()
	for _, k := range keys {
		step := chromedp.KeyEvent(k)
		if k == "/" { // which the page handles: Chromium then types no character, and its driver would
			step = slash
		}
		require.NoError(b, chromedp.Do(b.ctx, step))
	}
}

func slash(ctx context.Context, t *chromedp.Target) (done chromedp.Void, err error) {
	for _, e := range kb.Encode('/') {
		if e.Type != kb.KeyChar && err == nil {
			_, err = cdp.Call(ctx, t, input.DispatchKeyEvent, *e)
		}
	}
	return done, err
}

func (b *tab) clicks(selector string) {
	b.Helper()
	require.NoError(b, chromedp.Do(b.ctx, chromedp.Click(chromedp.CSS(selector))))
}

// row is a row's text, its cells joined by "|", in JavaScript.
func row(name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#rows .row")].filter(r => r.querySelector(".name").textContent === %q)
		.map(r => ["who", "token", "waiting"].map(c => r.querySelector(".c-" + c).textContent).join("|"))[0]`, name)
}

// shows waits until the row of a name has this holder, and so many waiting.
func (b *tab) shows(name, who string, waiting int) {
	b.Helper()
	n := ""
	if waiting > 0 {
		n = fmt.Sprint(waiting)
	}
	b.sees("(r => r && r[0] === %q && r[2] === %q)((%s)?.split('|'))", who, n, row(name))
}

// ended waits until the lanes of a name show a hold that ended so.
func (b *tab) ended(name, token, how string) {
	b.Helper()
	b.sees(`[...document.querySelectorAll("#rows .row")].some(r => r.querySelector(".name").textContent === %q && r.querySelector('.hold.%s[data-token="%s"]'))`, name, how, token)
}

// selected is the name of the selected row.
func (b *tab) selected(name string) {
	b.Helper()
	b.sees(`document.querySelector('#rows [aria-selected="true"] .name')?.textContent === %q`, name)
}
