package pawlgocron

import (
	"context"

	"github.com/pawl-locks/pawl/fencing"
)

// A holding is a lock.Held or an elect.Term.
type holding interface {
	Name() string
	Token() fencing.Token
	Context() context.Context
	Err() error
}

// within returns a child of ctx that carries h's token and ends when h is lost.
func within(ctx context.Context, h holding) (context.Context, context.CancelFunc, error) {
	if err := h.Err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(fencing.NewContext(ctx, h.Name(), h.Token()))
	lost := h.Context()
	stop := context.AfterFunc(lost, func() { cancel(context.Cause(lost)) })
	return ctx, func() { stop(); cancel(nil) }, nil
}
