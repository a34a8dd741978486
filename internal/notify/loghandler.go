package notify

import (
	"context"
	"log/slog"
	"slices"
)

// A logHandler is the slog.Handler of a Log. Its methods only put something into a queue, or note it.
type logHandler struct {
	log  *Log
	from *logHandler                     // nil for the first
	with func(slog.Handler) slog.Handler // makes the user's handler from that of from
	to   slog.Handler                    // only the worker uses it; nil until it needs it
}

// handler returns the user's handler. Only the worker calls it.
func (h *logHandler) handler() slog.Handler {
	switch {
	case h.from == nil:
		return h.log.to
	case h.to == nil:
		h.to = h.with(h.from.handler())
	}
	return h.to
}

// Enabled implements slog.Handler. The user's Enabled decides later.
func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.log.least == nil || level >= h.log.least.Level()
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	h.log.put(entry{ctx: context.WithoutCancel(ctx), to: h, record: r.Clone()})
	return nil
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	attrs = slices.Clone(attrs)
	return &logHandler{log: h.log, from: h, with: func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) }}
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{log: h.log, from: h, with: func(to slog.Handler) slog.Handler { return to.WithGroup(name) }}
}
