package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/httpfence"
)

// A service that owns its state, and a client that writes to it under a lock.
func Example() {
	var (
		gate  fencing.Gate
		mu    sync.Mutex
		state = map[string]string{}
	)
	write := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource, token, _ := fencing.FromContext(r.Context()) // which Handler put there
		value, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		// Again, now that no newer holder can come between this and the write.
		var stale *fencing.StaleError
		switch err := gate.Admit(resource, token); {
		case errors.As(err, &stale):
			httpfence.WriteStale(w, stale)
			return
		case err != nil: // the token is a reader's, which may not write
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		state[resource] = string(value)
	})
	server := httptest.NewServer(httpfence.Handler(&gate, write))
	defer server.Close()

	client := http.Client{Transport: httpfence.Transport{}}
	put := func(ctx context.Context, value string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL, strings.NewReader(value))
		if err != nil {
			return err
		}
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if err := httpfence.Refused(resp); err != nil {
			return err // a *fencing.StaleError: the lock is lost
		}
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}

	// Held.Context and Mutex.Do of package lock give contexts like these.
	first := fencing.NewContext(context.Background(), "jobs/42", 41)
	second := fencing.NewContext(context.Background(), "jobs/42", 57)
	fmt.Println(put(first, "a"))
	fmt.Println(put(second, "b"))
	fmt.Println(put(first, "late"))
	fmt.Println(put(fencing.NewSharedContext(context.Background(), "jobs/42", 60), "a reader's"))
	fmt.Println(state["jobs/42"])
	// Output:
	// <nil>
	// <nil>
	// fencing: stale token 41 for "jobs/42": 57 was seen
	// 403 Forbidden
	// b
}
