package ui

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/lock"
)

func TestItAnswersToNoHostThatCouldBeAnotherSites(t *testing.T) {
	inBubble(t, Options{Hosts: []string{"Locks.example.net"}}, func(w *fixture) {
		for host, code := range map[string]int{
			"127.0.0.1:7295": 200, "127.0.0.1": 200, "[::1]:7295": 200, "[::1]": 200, "localhost:1": 200, "LOCALHOST": 200, "localhost.": 200,
			"10.1.2.3:80": 200, "locks.example.net": 200, "locks.example.net:8443": 200,
			"evil.example.org": 421, "evil.example.org:7295": 421, "127.0.0.1.evil.example.org": 421, "localhost.evil.example.org": 421, "": 421,
			"x.locks.example.net": 421, "evil.example.org:7295:127.0.0.1": 421,
		} {
			for _, target := range []string{"/", "/api/state"} {
				assert.Equal(w, code, w.requests("GET", target, "", "Host", host).Code, "%s of %q", target, host)
			}
			if code == 421 {
				assert.Equal(w, 421, w.requests("POST", "/api/break", "", "Host", host).Code, host)
			}
		}
	})
}

func TestEveryAnswerSaysWhatThePageMayDo(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		for _, target := range []string{"/", "/app.js", "/app.css", "/icon.svg", "/api/state", "/none", "/api/none"} {
			got := w.requests("GET", target, "")
			h := got.Result().Header
			assert.Equal(w, policy, h.Get("Content-Security-Policy"), target)
			assert.Equal(w, "nosniff", h.Get("X-Content-Type-Options"))
			assert.Empty(w, h.Get("Access-Control-Allow-Origin"))
			if strings.HasSuffix(target, "none") {
				assert.Equal(w, 404, got.Code, target)
			} else {
				assert.Equal(w, 200, got.Code, target)
				assert.Equal(w, "no-store", h.Get("Cache-Control"))
			}
		}
		assert.Contains(w, w.requests("GET", "/app.js", "").Header().Get("Content-Type"), "javascript")
		assert.Equal(w, 405, w.requests("PUT", "/api/state", "").Code)
		assert.Equal(w, 404, w.requests("GET", "/api/break", "").Code)
		assert.Equal(w, 405, w.requests("OPTIONS", "/api/break", "").Code, "no other site is allowed anything")
	})
}

// Everything in the files has to be allowed by the policy, and to come from the page itself.
func TestTheFilesNeedNothingFromElsewhere(t *testing.T) {
	entries, err := static.ReadDir("static")
	require.NoError(t, err)
	for _, e := range entries {
		data, err := static.ReadFile("static/" + e.Name())
		require.NoError(t, err)
		text := strings.ReplaceAll(string(data), "http://www.w3.org/2000/svg", "")
		for _, never := range []string{"http:", "https:", "//cdn", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", "onclick=", "@import", "url("} {
			assert.NotContains(t, text, never, e.Name())
		}
	}
}

func TestABreakNeedsTheTokenTheSameSiteAndTheHolderThatWasShown(t *testing.T) {
	inBubble(t, Options{Token: "SECRET", By: "carol"}, func(w *fixture) {
		h := w.Holds(w.Session("ann"), "backup")
		w.waits(w.Session("bob"), "backup")
		id := w.settled().Queues[0].ID
		right := fmt.Sprintf(`{"queue":%q,"token":"%d"}`, id, h.Token())
		for name, c := range map[string]struct {
			body   string
			header []string
			code   int
		}{
			"no token":                    {right, nil, 403},
			"another token":               {right, []string{"Pawl-Break", "SECRE"}, 403},
			"from another site":           {right, []string{"Pawl-Break", "SECRET", "Sec-Fetch-Site", "cross-site"}, 403},
			"from another port":           {right, []string{"Pawl-Break", "SECRET", "Sec-Fetch-Site", "same-site"}, 403},
			"another origin":              {right, []string{"Pawl-Break", "SECRET", "Origin", "http://127.0.0.1:80"}, 403},
			"no JSON":                     {"queue=a", []string{"Pawl-Break", "SECRET"}, 400},
			"too much":                    {strings.Repeat(" ", maxRequest+1) + right, []string{"Pawl-Break", "SECRET"}, 400},
			"another holder":              {strings.Replace(right, `"token":"`, `"token":"9`, 1), []string{"Pawl-Break", "SECRET"}, 409},
			"nobody's queue":              {`{"queue":"YQ","token":"1"}`, []string{"Pawl-Break", "SECRET"}, 409},
			"no queue's":                  {`{"queue":"%","token":"1"}`, []string{"Pawl-Break", "SECRET"}, 409},
			"no token of the holder's":    {fmt.Sprintf(`{"queue":%q}`, id), []string{"Pawl-Break", "SECRET"}, 409},
			"a token that is no number's": {fmt.Sprintf(`{"queue":%q,"token":"x"}`, id), []string{"Pawl-Break", "SECRET"}, 400},
		} {
			got := w.requests("POST", "/api/break", c.body, c.header...)
			assert.Equal(w, c.code, got.Code, "%s: %s", name, got.Body)
		}
		assert.NoError(w, h.Err(), "nothing was done")

		got := w.requests("POST", "/api/break", right, "Pawl-Break", "SECRET", "Sec-Fetch-Site", "same-origin")
		assert.Equal(w, 200, got.Code, got.Body)
		var said struct{ Evicted positionView }
		require.NoError(w, json.Unmarshal(got.Body.Bytes(), &said))
		assert.Equal(w, "ann", said.Evicted.Owner)
		<-h.Done()
		assert.ErrorIs(w, h.Err(), lock.ErrKeyDeleted)
		s := w.settled()
		assert.Equal(w, "bob", s.Queues[0].Positions[0].Owner)
		assert.Equal(w, "carol", s.Holds[0].By)
		assert.Equal(w, "broken", s.Holds[0].Cause)
		assert.Equal(w, 409, w.requests("POST", "/api/break", right, "Pawl-Break", "SECRET").Code, "once more hits nobody")
	})
}

func TestThePageLearnsWhetherItsKeyIsTheRightOne(t *testing.T) {
	inBubble(t, Options{Token: "SECRET"}, func(w *fixture) {
		assert.Equal(w, 204, w.requests("GET", "/api/key", "", "Pawl-Break", "SECRET").Code)
		assert.Equal(w, 403, w.requests("GET", "/api/key", "", "Pawl-Break", "OTHER").Code)
		assert.Equal(w, 403, w.requests("GET", "/api/key", "").Code)
	})
	inBubble(t, Options{}, func(w *fixture) {
		assert.Equal(w, 403, w.requests("GET", "/api/key", "", "Pawl-Break", "").Code, "there is none")
	})
}

func TestWithoutATokenNothingCanBeBroken(t *testing.T) {
	inBubble(t, Options{}, func(w *fixture) {
		h := w.Holds(w.Session("ann"), "backup")
		body := fmt.Sprintf(`{"queue":%q,"token":"%d"}`, w.settled().Queues[0].ID, h.Token())
		got := w.requests("POST", "/api/break", body, "Pawl-Break", "")
		assert.Equal(w, 403, got.Code)
		assert.Contains(w, got.Body.String(), "--allow-break")
		assert.NoError(w, h.Err())
	})
}

func TestABreakThatGetsNoAnswerSaysSo(t *testing.T) {
	inBubble(t, Options{Token: "SECRET"}, func(w *fixture) {
		h := w.Holds(w.Session("ann"), "backup")
		body := fmt.Sprintf(`{"queue":%q,"token":"%d"}`, w.settled().Queues[0].ID, h.Token())
		w.Cluster.BlackHole()
		got := w.requests("POST", "/api/break", body, "Pawl-Break", "SECRET")
		w.Cluster.Heal()
		assert.Equal(w, 502, got.Code)
		assert.Contains(w, got.Body.String(), "may have been evicted or not")
	})
}
