package elect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/lease"
)

// Variables of the environment that make this binary a candidate, and say
// where etcd is.
const (
	roleVariable     = "PAWL_ELECT_TEST_ROLE"
	endpointVariable = "PAWL_ELECT_TEST_ENDPOINT"
)

// A bulletin is what a candidate's process says about a term, on a line: once it
// has won it, and again when it is over.
type bulletin struct {
	Key   string
	Token fencing.Token
	Lease int64
	Won   time.Time // right after Campaign returned
	Last  time.Time // right before the last call of Err that said nil
	Over  string    // the cause; "" if it is not over
}

// TestRoleCandidate is not a test: it is a process that wins and loses one name,
// until its input ends. Lines on its input have it give up a term that they
// name.
func TestRoleCandidate(t *testing.T) {
	if os.Getenv(roleVariable) == "" {
		t.Skip("the role of a child process")
	}
	orders := make(chan string, 100)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the input, as the process does
		defer cancel()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			orders <- in.Text()
		}
	}()
	c, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{os.Getenv(endpointVariable)}})
	require.NoError(t, err)
	defer c.Close()
	for ctx.Err() == nil {
		s, err := c.NewSession(ctx, lease.Options{TTL: 6 * time.Second}) // a slow machine does not lose it by itself
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		tm, err := elect.New(s, "e", elect.Options{}).Campaign(ctx, fmt.Append(nil, os.Getpid()))
		if err == nil {
			reign(ctx, s, tm, orders)
		}
		_ = s.Close(ctx)
	}
}

// reign reports the term, and obeys the commands that it gets.
func reign(ctx context.Context, s *pawl.Session, tm *elect.Term, orders <-chan string) {
	b := bulletin{Key: tm.Key(), Token: tm.Token(), Lease: s.ID(), Won: time.Now()}
	say(b)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		at := time.Now()
		err := tm.Err()
		if err != nil {
			b.Over = causeOf(err)
			say(b)
			return
		}
		b.Last = at
		select {
		case <-tick.C:
		case what := <-orders:
			switch what {
			case fmt.Sprint("close ", tm.Token()):
				_ = s.Close(ctx)
			case fmt.Sprint("resign ", tm.Token()):
				_ = tm.Resign(ctx)
			}
		case <-ctx.Done():
			_ = tm.Resign(ctx)
		}
	}
}

func say(b bulletin) {
	line, _ := json.Marshal(b)
	fmt.Printf("\nterm %s\n", line)
}

// named are all causes of a term's end, with what a bulletin calls them.
var named = map[string]error{
	"expired": lease.ErrExpired, "revoked": lease.ErrRevoked, "closed": lease.ErrClosed, "resigned": elect.ErrResigned,
	"deleted": elect.ErrKeyDeleted, "overwritten": elect.ErrKeyOverwritten, "changed": pawl.ErrClusterChanged,
}

// causeOf names the one cause that err matches.
func causeOf(err error) string {
	found := ""
	for name, cause := range named {
		if errors.Is(err, cause) {
			found += name
		}
	}
	if errors.Is(err, elect.ErrLost) == (found == "resigned") {
		found += " (ErrLost does not go with it)"
	}
	return found
}

func TestCausesAreNamedOnce(t *testing.T) {
	assert.Equal(t, "resigned", causeOf(elect.ErrResigned))
	assert.Equal(t, "expired", causeOf(errors.Join(elect.ErrLost, lease.ErrExpired)))
	assert.Contains(t, causeOf(lease.ErrExpired), "does not go")
}
