package httpfence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/httpfence"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// ask sends the headers as they are, and returns the answer and its body.
func ask(t *testing.T, h http.Handler, headers ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest("PUT", "/", nil)
	r.Header[httpfence.Header] = headers
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	require.NoError(t, err)
	return w.Result(), string(body)
}

// echo answers with the resource and token of the request's context.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	resource, token, ok := fencing.FromContext(r.Context())
	_ = json.NewEncoder(w).Encode([]any{resource, token, ok})
})

func TestHandlerHandsTheTokenOn(t *testing.T) {
	for name, g := range map[string]*fencing.Gate{"gate": {}, "nil": nil} {
		t.Run(name, func(t *testing.T) {
			resp, body := ask(t, httpfence.Handler(g, echo), "57 jobs%2F42")
			assert.Equal(t, 200, resp.StatusCode)
			assert.JSONEq(t, `["jobs/42", 57, true]`, body)
		})
	}
}

func TestStaleTokenIsAnsweredWith412AndTheTokenSeen(t *testing.T) {
	var g fencing.Gate
	h := httpfence.Handler(&g, echo)
	ask(t, h, "57 jobs%2F42")
	resp, body := ask(t, h, "41 jobs%2F42")
	assert.Equal(t, 412, resp.StatusCode)
	assert.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
	assert.JSONEq(t, `{"type":"urn:pawl:fencing:stale","title":"stale fencing token","status":412,
		"detail":"stale token 41 for \"jobs/42\": 57 was seen","resource":"jobs%2F42","got":41,"highest":57}`, body)
	resp, _ = ask(t, httpfence.Handler(nil, echo), "41 jobs%2F42")
	assert.Equal(t, 200, resp.StatusCode, "without a gate nothing is stale")
}

func TestRequestWithoutATokenIsAnsweredWith428(t *testing.T) {
	for _, g := range []*fencing.Gate{{}, nil} {
		resp, body := ask(t, httpfence.Handler(g, echo))
		assert.Equal(t, 428, resp.StatusCode)
		assert.JSONEq(t, `{"type":"urn:pawl:fencing:no-token","title":"no fencing token","status":428,"detail":"the request has no Fencing-Token header"}`, body)
	}
}

func TestGarbledOrRepeatedTokenIsAnsweredWith400(t *testing.T) {
	for _, g := range []*fencing.Gate{{}, nil} {
		h := httpfence.Handler(g, echo)
		for _, headers := range [][]string{{""}, {"57"}, {"0 a"}, {"-1 a"}, {"57 "}, {"57 a/b"}, {"57 a, 57 a"}, {"57 a", "57 a"}, {"57 a", "58 a"}} {
			resp, body := ask(t, h, headers...)
			assert.Equal(t, 400, resp.StatusCode, "%q", headers)
			assert.Contains(t, body, "urn:pawl:fencing:garbled-token")
		}
		resp, _ := ask(t, h, "1 a")
		assert.Equal(t, 200, resp.StatusCode, "none of those registered anything")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestTransportWithoutATokenSendsNothingAndClosesTheBody(t *testing.T) {
	tr := httpfence.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return nil, errors.New("sent")
	})}
	outer := fencing.NewContext(t.Context(), "jobs/42", 57)
	for _, ctx := range []context.Context{t.Context(), fencing.NewContext(outer, "jobs/43", 0)} {
		body := &closing{Reader: strings.NewReader("x")}
		r, err := http.NewRequestWithContext(ctx, "PUT", "http://user:secret@host/", body)
		require.NoError(t, err)
		_, err = tr.RoundTrip(r)
		require.ErrorIs(t, err, httpfence.ErrNoToken)
		assert.NotContains(t, err.Error(), "secret")
		assert.True(t, body.closed)
	}
}

func TestTransportSendsExactlyTheContextsTokenAndLeavesTheRequestAlone(t *testing.T) {
	var got []string
	tr := httpfence.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		got = r.Header.Values("fencing-token")
		return &http.Response{StatusCode: 204, Body: http.NoBody}, nil
	})}
	r, err := http.NewRequestWithContext(fencing.NewContext(t.Context(), "jobs/42", 57), "PUT", "http://host/", nil)
	require.NoError(t, err)
	r.Header.Add(httpfence.Header, "1 other")
	r.Header.Add(httpfence.Header, "2 other")
	_, err = tr.RoundTrip(r)
	require.NoError(t, err)
	assert.Equal(t, []string{"57 jobs%2F42"}, got)
	assert.Equal(t, []string{"1 other", "2 other"}, r.Header.Values(httpfence.Header))
}

func TestRefusedLeavesOtherAnswersUntouched(t *testing.T) {
	for _, c := range []struct {
		status     int
		kind, body string
	}{
		{200, "application/problem+json", `{"type":"urn:pawl:fencing:stale","got":1,"highest":2}`},
		{412, "text/html", "If-Match failed"},
		{412, "application/problem+json", `{"type":"about:blank"}`},
		{412, "application/problem+json", `{"type":"urn:pawl:fencing:stale","got":3,"highest":2}`},
		{412, "application/problem+json", strings.Repeat("x", 100_000)},
		{400, "application/problem+json; charset=utf-8", `{`},
	} {
		resp := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}}, Body: io.NopCloser(strings.NewReader(c.body))}
		require.NoError(t, httpfence.Refused(resp))
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, c.body, string(body))
	}
	broken := errors.New("broken")
	resp := &http.Response{StatusCode: 412, Header: http.Header{"Content-Type": {"application/problem+json"}},
		Body: io.NopCloser(io.MultiReader(strings.NewReader("abc"), reader{broken}))}
	require.NoError(t, httpfence.Refused(resp))
	body, err := io.ReadAll(resp.Body)
	assert.ErrorIs(t, err, broken)
	assert.Equal(t, "abc", string(body))
}

type reader struct{ error }

func (r reader) Read([]byte) (int, error) { return 0, r.error }

func TestRefusedDistinguishesTheRefusals(t *testing.T) {
	var g fencing.Gate
	h := httpfence.Handler(&g, echo)
	const odd = "\xff\x00/ "
	require.NoError(t, g.Admit(odd, 57))
	w := httptest.NewRecorder()
	r := httptest.NewRequest("PUT", "/", nil)
	r.Header.Set(httpfence.Header, "41 %FF%00%2F%20")
	h.ServeHTTP(w, r)
	var stale *fencing.StaleError
	require.ErrorAs(t, httpfence.Refused(w.Result()), &stale)
	assert.Equal(t, fencing.StaleError{Resource: odd, Got: 41, Highest: 57}, *stale)

	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("PUT", "/", nil))
	err := httpfence.Refused(w.Result())
	assert.ErrorIs(t, err, httpfence.ErrNoToken)
	assert.ErrorContains(t, err, "428")
}

func TestHandlerWithoutANextPanicsAtOnce(t *testing.T) {
	assert.PanicsWithValue(t, "httpfence: nil next handler", func() { httpfence.Handler(nil, nil) })
}

func TestTransportTakesARequestWithoutAHeaderMap(t *testing.T) {
	srv := httptest.NewServer(httpfence.Handler(nil, echo))
	defer srv.Close()
	made, err := http.NewRequest("GET", srv.URL, nil)
	require.NoError(t, err)
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	bare := (&http.Request{Method: "GET", URL: made.URL}).WithContext(fencing.NewContext(t.Context(), "jobs/42", 57))
	resp, err := httpfence.Transport{Base: base}.RoundTrip(bare)
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	assert.Nil(t, bare.Header)
}

func TestSharedTokenIsSentAdmittedAndHandedOnAsShared(t *testing.T) {
	var g fencing.Gate
	server := httptest.NewServer(httpfence.Handler(&g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource, token, ok := fencing.FromSharedContext(r.Context())
		_ = json.NewEncoder(w).Encode([]any{resource, token, ok})
	})))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := http.Client{Transport: httpfence.Transport{Base: base}}
	get := func(ctx context.Context) (string, error) {
		r, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
		require.NoError(t, err)
		resp, err := client.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		if err := httpfence.Refused(resp); err != nil {
			return "", err
		}
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	for _, token := range []fencing.Token{57, 55} {
		body, err := get(fencing.NewSharedContext(t.Context(), "jobs/42", token))
		require.NoError(t, err)
		assert.JSONEq(t, fmt.Sprintf(`["jobs/42", %d, true]`, token), body)
	}
	_, err := get(fencing.NewContext(t.Context(), "jobs/42", 56))
	var stale *fencing.StaleError
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, fencing.StaleError{Resource: "jobs/42", Got: 56, Highest: 57}, *stale)
	_, err = get(fencing.NewContext(t.Context(), "jobs/42", 58))
	require.NoError(t, err)
	_, err = get(fencing.NewSharedContext(t.Context(), "jobs/42", 58))
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, fencing.StaleError{Resource: "jobs/42", Got: 58, Highest: 58}, *stale)
}

func TestAdmitAnswersByItselfAndAdmitsOnlyTheTokenOfItsResource(t *testing.T) {
	var g fencing.Gate
	try := func(resource string, headers ...string) (int, string) {
		done := false
		resp, body := ask(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { done = httpfence.Admit(w, r, &g, resource) }), headers...)
		assert.Equal(t, done, resp.StatusCode == 200)
		return resp.StatusCode, body
	}
	status, _ := try("jobs/42", "57 jobs%2F42")
	assert.Equal(t, 200, status)
	status, _ = try("jobs/42", "60 jobs%2F42 shared")
	assert.Equal(t, 200, status)
	status, body := try("jobs/42", "58 jobs%2F42")
	assert.Equal(t, 412, status)
	assert.Contains(t, body, `"highest":60`)
	status, body = try("jobs/42")
	assert.Equal(t, 428, status)
	assert.Contains(t, body, "no Fencing-Token header")
	status, body = try("jobs/42", "61 jobs%2F43")
	assert.Equal(t, 428, status)
	assert.Contains(t, body, "jobs/43")
	status, _ = try("jobs/42", "61")
	assert.Equal(t, 400, status)
	require.NoError(t, g.Admit("jobs/43", 1), "nothing was registered for the other resource")

	resp, _ := ask(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { httpfence.Admit(w, r, nil, "a") }), "1 a")
	assert.Equal(t, 200, resp.StatusCode, "without a gate nothing is stale")
}
