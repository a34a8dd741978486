package ui

import (
	"fmt"
	"net/http"
	"time"
)

const (
	pingEvery   = 10 * time.Second
	writeWithin = 15 * time.Second
)

// stream sends the state, or the changes that a reader missed, and then each change. The parameter
// last, or the browser's header, says what the reader already has.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	last := r.URL.Query().Get("last")
	if last == "" {
		last = r.Header.Get("Last-Event-ID")
	}
	first, reader := p.hub.join(last)
	if reader == nil {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("the page is closing, or open %d times", maxStreams))
		return
	}
	defer p.hub.leave(reader)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // of a proxy
	out := http.NewResponseController(w)
	send := func(frames ...[]byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeWithin))
		for _, f := range frames {
			if _, err := w.Write(f); err != nil {
				return false
			}
		}
		return out.Flush() == nil
	}
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for ok := send(append(first, ping())...); ok; {
		select {
		case frame, open := <-reader.frames:
			ok = open && send(frame)
		case <-ticker.C:
			ok = send(ping())
		case <-r.Context().Done():
			return
		}
	}
}

// ping shows a browser that the stream works, and the time here.
func ping() []byte { return fmt.Appendf(nil, "event: ping\ndata: %d\n\n", time.Now().UnixMilli()) }
