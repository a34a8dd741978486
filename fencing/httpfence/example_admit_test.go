package httpfence_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/httpfence"
)

// A service with several resources, each by its own path.
func ExampleAdmit() {
	var (
		gate  fencing.Gate
		mu    sync.Mutex
		state = map[string]string{}
	)
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /jobs/{id}", func(w http.ResponseWriter, r *http.Request) {
		value, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock() // admission and write are one step
		defer mu.Unlock()
		resource := "jobs/" + r.PathValue("id")
		if !httpfence.Admit(w, r, &gate, resource) {
			return // answered already
		}
		state[resource] = string(value)
	})
	put := func(header string) {
		r := httptest.NewRequest(http.MethodPut, "/jobs/42", strings.NewReader("done"))
		if header != "" {
			r.Header.Set(httpfence.Header, header)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	put("57 jobs%2F42") // httpfence.Transport sends this
	put("41 jobs%2F42") // an older holder, late
	put("58 jobs%2F43") // a lock for something else
	put("")             // no lock at all
	// Output:
	// 200
	// 412
	// 428
	// 428
}
