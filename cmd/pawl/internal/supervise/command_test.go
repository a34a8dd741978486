package supervise

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// keptHolding notes the calls of its methods.
type keptHolding struct {
	stubHolding
	calls []string
}

func (h *keptHolding) Keep() (done func()) {
	h.calls = append(h.calls, "keep")
	return func() { h.calls = append(h.calls, "done") }
}

func (h *keptHolding) Deadline() time.Time {
	h.calls = append(h.calls, "deadline")
	return h.stubHolding.Deadline()
}

// awakeGuardian answers each question at once.
type awakeGuardian struct {
	bytes.Buffer
	awake chan struct{}
}

func (g *awakeGuardian) Write(question []byte) (int, error) {
	g.awake <- struct{}{}
	return len(question), nil
}

func TestAHoldingIsKeptUntilItsCommandHasEnded(t *testing.T) {
	awake := make(chan struct{}, 1)
	link := &Link{Signals: &Signals{}, conn: &awakeGuardian{awake: awake}, awake: awake, shared: new(sharedMemory)}
	h := &keptHolding{stubHolding: stubHolding{deadline: time.Now().Add(time.Hour)}}
	_, err := (&Command{Path: t.TempDir(), Argv: []string{"a"}, Link: link}).Run(h)
	assert.ErrorAs(t, err, new(*StartError))
	assert.Equal(t, []string{"keep", "deadline", "done"}, h.calls)
	assert.Zero(t, link.shared.run())
}
