package ui

import (
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
)

//go:embed static
var static embed.FS

// handler is the page's whole interface.
func (p *Page) handler() http.Handler {
	files, _ := fs.Sub(static, "static") // no error, because it was compiled in
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /api/state", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, p.hub.state()) })
	mux.HandleFunc("GET /api/events", p.stream)
	mux.HandleFunc("GET /api/leases", p.leases)
	mux.HandleFunc("GET /api/shards", p.shards)
	mux.HandleFunc("GET /api/key", p.key)
	mux.HandleFunc("POST /api/break", p.breakIt)
	return p.guard(mux)
}

// answer sends what as JSON.
func answer(w http.ResponseWriter, code int, what any) {
	data, err := json.Marshal(what)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(append(data, '\n'))
}

// refuse sends an error, with the reason.
func refuse(w http.ResponseWriter, code int, why string) {
	answer(w, code, map[string]string{"error": why})
}
