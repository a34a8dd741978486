package matrix

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
)

// sets is a storage of sets that are read as a whole and written as a whole, as
// files are: what two do at once is lost. Those called fenced check tokens.
type sets struct {
	server *httptest.Server
	gate   fencing.Gate

	mu     sync.Mutex
	all    map[string]*set
	reader int64 // who read last and has not written, as its element says
}

type set struct {
	elements  []string
	confirmed []string
}

func newSets(t testing.TB) *sets {
	s := &sets{all: map[string]*set{}}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

func setAddress(server, kind, name string, token, element int64) string {
	return server + "?" + url.Values{
		"set": {kind + " " + name}, "token": {fmt.Sprint(token)}, "element": {fmt.Sprint(element)},
	}.Encode()
}

// storage keeps as many connections as there are workers at full rate in a process.
var storage = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}

func exchange(ctx context.Context, method, address, body string) ([]byte, int, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	resp, err := storage.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return answer, resp.StatusCode, err
}

func (s *sets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := q.Get("set")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(name, "fenced") {
		token, _ := strconv.ParseInt(q.Get("token"), 10, 64)
		admit := s.gate.Admit
		if q.Get("shared") != "" {
			admit = s.gate.AdmitShared
		}
		if err := admit(name, fencing.Token(token)); err != nil {
			http.Error(w, err.Error(), http.StatusPreconditionFailed)
			return
		}
	}
	one := s.all[name]
	if one == nil {
		one = &set{}
		s.all[name] = one
	}
	if r.Method == http.MethodGet && q.Get("shared") != "" {
		fmt.Fprint(w, strings.Join(one.elements, " "))
		return
	}
	if r.Method == http.MethodGet {
		s.reader, _ = strconv.ParseInt(q.Get("element"), 10, 64)
		fmt.Fprint(w, strings.Join(one.elements, " "))
		return
	}
	s.reader = 0
	one.elements = strings.Fields(string(body))
	one.confirmed = append(one.confirmed, q.Get("element"))
}

// holder is the number of the worker that read last and has not written yet.
func (s *sets) holder() (number int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.reader/1_000_000_000) - 1, s.reader > 0
}

// lost counts, in the sets of that kind, what was confirmed and is not there.
func (s *sets) lost(kind string) (lost, confirmed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, one := range s.all {
		if !strings.HasPrefix(name, kind) {
			continue
		}
		there := map[string]bool{}
		for _, e := range one.elements {
			there[e] = true
		}
		for _, e := range one.confirmed {
			confirmed++
			if !there[e] {
				lost++
			}
		}
	}
	return lost, confirmed
}
