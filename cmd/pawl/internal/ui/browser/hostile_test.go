package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/ui"
)

// The page shows everything that others can write into etcd as text: names, owners, hosts,
// values, causes.
func TestWhatOthersWroteIsTextAndNothingElse(t *testing.T) {
	t.Parallel()
	const evil = `<script>document.title="owned"</script><img src=x onerror="document.title='owned'"><b id=owned>`
	s := newSite(t, ui.Options{Token: "KEY"})
	owner := s.session(evil)
	s.holds(owner, evil)
	s.waits(s.session(evil+"2"), evil)
	s.leads(owner, "chief", evil)
	s.holds(owner, "turned\u202eback\nline\x1b[31m")
	s.etcd.Put("app/bytes\xff/1f-1", `{"pawl":"lock","owner":"x"}`, 0)
	b := open(t, s.url(), "/#key=KEY", look{})
	b.sees(`[...document.querySelectorAll(".name")].some(n => n.textContent === %q)`, evil)
	b.sees(`[...document.querySelectorAll(".name")].some(n => n.textContent === "turned\\u{202e}back\\u{a}line\\u{1b}[31m")`)
	b.sees(`[...document.querySelectorAll(".name")].some(n => n.textContent === '"bytes\\xff"')`)
	b.value(fmt.Sprintf(`[...document.querySelectorAll(".name")].find(n => n.textContent === %q).click()`, evil))
	b.sees(`document.querySelector("#details h2")?.textContent === %q`, evil)
	b.says("#mode", "break allowed")
	b.presses("b")
	b.sees(`document.getElementById("break-text").textContent.includes(%q)`, evil)
	b.presses(kb.Escape, kb.Escape)
	b.value(`[...document.querySelectorAll(".name")].find(n => n.textContent === "chief").click()`)
	b.sees(`document.querySelector("#details .facts").textContent.includes(%q)`, evil)
	s.etcd.Revoke(owner.ID())
	b.sees(`document.querySelector("#details .past.lost")?.textContent.includes(%q)`, evil)
	b.sees(`document.getElementById("news").textContent.includes(%q)`, evil)
	assert.Equal(t, "0", b.value(`document.querySelectorAll("body script, body img:not([src='icon.svg']), #owned").length`))
	assert.NotEqual(t, "owned", b.value("document.title"))
}

// The policy of the server, and not the care of the scripts alone.
func TestTheBrowserRefusesWhatThePolicyForbids(t *testing.T) {
	t.Parallel()
	s := newSite(t, ui.Options{})
	b := open(t, s.url(), "/", look{})
	b.says("#link", "live")
	for what, expression := range map[string]string{
		"markup from a string": `(() => { try { document.body.innerHTML = "<p>x"; return "done" } catch (e) { return e.name } })()`,
		"code from a string":   `(() => { const s = document.createElement("script"); try { s.text = "window.ran = 1"; document.body.append(s) } catch (e) { return e.name } return window.ran ? "done" : "TypeError" })()`,
	} {
		assert.Equal(t, "TypeError", b.value(expression), what)
	}
	b.value(`(i => { i.src = "http://127.0.0.2:9/x.png"; i.onerror = () => window.refused = 1; document.body.append(i) })(new Image())`)
	b.sees("window.refused")
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.NotEmpty(t, b.wrong, "the browser complains")
	b.wrong = nil
	kept := b.asked[:0]
	for _, url := range b.asked {
		if url != "http://127.0.0.2:9/x.png" {
			kept = append(kept, url)
		}
	}
	b.asked = kept
}
