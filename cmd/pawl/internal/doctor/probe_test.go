package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A fakeDaemon answers each call as a test says, and notes what was called.
type fakeDaemon struct {
	*daemon
	mu     sync.Mutex
	called []string
}

// fakeOf makes one; a call without an answer gets none.
func fakeOf(t *testing.T, answers map[string]func(w http.ResponseWriter)) *fakeDaemon {
	f := &fakeDaemon{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		f.mu.Lock()
		f.called = append(f.called, call)
		f.mu.Unlock()
		if answer := answers[call]; answer != nil {
			answer(w)
			return
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	f.daemon = &daemon{http: &http.Client{Timeout: 10 * time.Second}, base: server.URL}
	return f
}

func (f *fakeDaemon) count(call string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.called {
		if c == call {
			n++
		}
	}
	return n
}

func says(status int, v any) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
}

type object = map[string]any

var (
	heldNow = object{"state": "HELD", "lock": object{"state": "HELD", "token": "5", "validForMs": "12500"}}
	listed  = object{"locks": []object{{"state": "HELD", "validForMs": "12500"}}}
	atLimit = says(http.StatusTooManyRequests, object{"code": "resource_exhausted", "message": "there are 4 calls under way, and may be no more"})
)

// A lock of the doctor's that is left would keep its name taken, and count, until it expires.
func TestTheDoctorsLockIsReleasedWhateverHappens(t *testing.T) {
	held, renewed := says(http.StatusOK, heldNow), says(http.StatusOK, listed)
	for name, c := range map[string]struct {
		answers map[string]func(w http.ResponseWriter)
		want    int
	}{
		"its answer is lost":    {nil, 1},
		"etcd is away":          {map[string]func(w http.ResponseWriter){"Acquire": says(503, object{"code": "unavailable", "message": "m"})}, 1},
		"it is waited for":      {map[string]func(w http.ResponseWriter){"Acquire": says(200, object{"state": "WAITING"})}, 1},
		"it is refused":         {map[string]func(w http.ResponseWriter){"Acquire": says(403, object{"code": "permission_denied", "message": "m"})}, 0},
		"Renew is lost":         {map[string]func(w http.ResponseWriter){"Acquire": held}, 1},
		"Renew is refused":      {map[string]func(w http.ResponseWriter){"Acquire": held, "Renew": atLimit}, 1},
		"Renew does not list":   {map[string]func(w http.ResponseWriter){"Acquire": held, "Renew": says(200, object{})}, 1},
		"Release is refused":    {map[string]func(w http.ResponseWriter){"Acquire": held, "Renew": renewed, "Release": atLimit}, 2},
		"Release is as it goes": {map[string]func(w http.ResponseWriter){"Acquire": held, "Renew": renewed, "Release": says(200, object{"results": []object{{"released": true}}})}, 1},
	} {
		f := fakeOf(t, c.answers)
		notes(func(d *doctor) { d.probe(t.Context(), f.daemon, "") })
		assert.Equal(t, c.want, f.count("Release"), name)
	}
}

// A pawld with a --max-ttl below the usual TTL is asked for the shortest, and judged by that.
func TestTheDoctorTakesTheTTLThatADaemonGives(t *testing.T) {
	var f *fakeDaemon
	f = fakeOf(t, map[string]func(w http.ResponseWriter){
		"Acquire": func(w http.ResponseWriter) {
			if f.count("Acquire") == 1 {
				says(http.StatusBadRequest, object{"code": "invalid_argument", "message": "ttl_ms is 15000, want 0 or 3000 to 9000"})(w)
				return
			}
			says(http.StatusOK, object{"state": "HELD", "lock": object{"state": "HELD", "token": "5", "validForMs": "2500"}})(w)
		},
		"Renew":   says(http.StatusOK, object{"locks": []object{{"state": "HELD", "validForMs": "9000"}}}),
		"Release": says(http.StatusOK, object{"results": []object{{"released": true}}}),
	})
	said := notes(func(d *doctor) { d.probe(t.Context(), f.daemon, "") })
	assert.Equal(t, 2, f.count("Acquire"))
	assert.NotContains(t, said, "calls")
	assert.Contains(t, said, "wrong promise    a lock is said to be valid for 9s of a TTL of 3s")
}

// An interrupt ends the probe, and not the release of its lock.
func TestTheDoctorsLockIsReleasedAfterAnInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	f := fakeOf(t, map[string]func(w http.ResponseWriter){
		"Acquire": says(http.StatusOK, heldNow),
		"Renew":   func(http.ResponseWriter) { interrupt() },
		"Release": says(http.StatusOK, object{}),
	})
	notes(func(d *doctor) { d.probe(ctx, f.daemon, "") })
	assert.Equal(t, 1, f.count("Release"))
}

func TestTheDoctorTellsALimitFromAStranger(t *testing.T) {
	ready := func(f *fakeDaemon) string { return notes(func(d *doctor) { d.ready(t.Context(), f.daemon) }) }
	assert.Regexp(t, `wrong live       a limit is reached: there are 4 calls under way, and may be no more\n→ .*--max-calls`, ready(fakeOf(t, map[string]func(w http.ResponseWriter){"Check": atLimit})))
	assert.Regexp(t, `wrong live       a limit is reached: EOF\n→ .*--max-connections`, ready(fakeOf(t, nil)))
	stranger := says(http.StatusUnauthorized, object{"code": "unauthenticated", "message": "m\x1b[2J"})
	assert.Contains(t, ready(fakeOf(t, map[string]func(w http.ResponseWriter){"Check": stranger})), `wrong live       refuses this user: "m\x1b[2J"`)
	held, renewed := says(http.StatusOK, heldNow), says(http.StatusOK, listed)
	for call, answers := range map[string]map[string]func(w http.ResponseWriter){
		"Renew is refused":                          {"Acquire": held, "Renew": atLimit},
		"Release does not confirm that it was held": {"Acquire": held, "Renew": renewed, "Release": atLimit},
	} {
		f := fakeOf(t, answers)
		assert.Contains(t, notes(func(d *doctor) { d.probe(t.Context(), f.daemon, "") }), ": a limit is reached: "+call+": there are 4 calls under way")
	}
}

// The identity is all that comes before what the doctor calls itself, and no control character
// reaches a terminal.
func TestTheDoctorShowsAnIdentityWhole(t *testing.T) {
	for owner, want := range map[string]string{
		`uid:0 "pawl doctor"`:                   " for uid:0",
		`cn:a worker of the shop "pawl doctor"`: " for cn:a worker of the shop",
		`"cn:a worker" "pawl doctor"`:           ` for "cn:a worker"`,
		"cn:a\x1b[2J \"pawl doctor\"":           ` for "cn:a\x1b[2J"`,
	} {
		f := fakeOf(t, map[string]func(w http.ResponseWriter){"List": says(http.StatusOK, object{"queues": []object{{"entries": []object{{"owner": owner}}}}})})
		assert.Equal(t, want, (&doctor{}).whoAmI(t.Context(), f.daemon, "n"))
	}
}
