package pawltest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// documents is storage that is to be tested: the document of the lock's name, and the highest token.
type documents struct {
	mu    sync.Mutex
	token fencing.Token
	text  string
}

// save replaces the text for the holder whose ctx it is.
func (d *documents) save(ctx context.Context, text string) error {
	return d.fenced(ctx, func() { d.text = text })
}

// load returns the text, and has older holders refused from now on.
func (d *documents) load(ctx context.Context) (text string, err error) {
	err = d.fenced(ctx, func() { text = d.text })
	return text, err
}

func (d *documents) fenced(ctx context.Context, do func()) error {
	_, token, ok := fencing.FromContext(ctx)
	if !ok {
		return fencing.ErrNoToken
	}
	d.mu.Lock() // until it is done: comparison and write are one step
	defer d.mu.Unlock()
	if token < d.token {
		return fmt.Errorf("document: token %d is stale, %d was seen", token, d.token)
	}
	d.token = token
	do()
	return nil
}

func TestDocumentsRefuseStaleHolders(t *testing.T) {
	d := &documents{}
	pawltest.Storage{Write: d.save, Read: d.load}.Check(t)
}
