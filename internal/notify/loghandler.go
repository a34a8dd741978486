package notify

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// A logHandler is the slog.Handler of a Log. Its methods only put something into a queue, or note it.
type logHandler struct {
	log   *Log
	least slog.Leveler                    // nil if only to knows what it handles
	from  *logHandler                     // nil for the first
	with  func(slog.Handler) slog.Handler // makes the user's handler from that of from
	to    slog.Handler                    // only the worker uses it; nil until it needs it
}

// handler returns the user's handler. Only the worker calls it.
func (h *logHandler) handler() slog.Handler {
	if h.to == nil {
		h.to = h.with(h.from.handler())
	}
	return h.to
}

// Enabled implements slog.Handler. The user's Enabled decides later.
func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.least == nil || level >= h.least.Level()
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	ctx, r = context.WithoutCancel(ctx), r.Clone()
	h.log.put(r.Level, func() { write(ctx, h.handler(), r) })
	return nil
}

// write passes a record on.
func write(ctx context.Context, to slog.Handler, r slog.Record) {
	if to.Enabled(ctx, r.Level) {
		_ = to.Handle(ctx, r)
	}
}

// reportTo says how many records are missing, at the highest of their levels.
func reportTo(to slog.Handler, m Missed) {
	r := slog.NewRecord(time.Now(), m.Level, "log records were dropped", 0)
	r.Add("count", m.Count)
	if m.Panic != "" {
		r.Add("panic", m.Panic)
	}
	write(context.Background(), to, r)
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	attrs = slices.Clone(attrs)
	return h.derived(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return h.derived(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *logHandler) derived(with func(slog.Handler) slog.Handler) *logHandler {
	return &logHandler{log: h.log, least: h.least, from: h, with: with}
}
