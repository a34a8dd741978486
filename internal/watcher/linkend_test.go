package watcher

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

// whileItEnds calls f when the reader of c's link has seen its end and the loop has not. What wakes the
// loop after that comes too late for that link.
func (c *call) whileItEnds(f func()) {
	s := c.hub.streams[0]
	s.working.Enter(context.Background())
	c.end <- status.Error(codes.Unavailable, "gone")
	synctest.Wait()
	f()
	synctest.Wait()
	s.working.Leave()
}

// rule: A3
func TestAWatchThatComesWhileItsLinkEndsIsCreatedOnTheNext(t *testing.T) {
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		_, _ = b.watch("stays", "", 1)
		c := b.accept()
		c.grant()
		synctest.Wait()
		var late *log
		c.whileItEnds(func() { _, late = b.watch("late", "", 1) })
		c = b.accept()
		r := c.grant()
		if string(r.Key) != "late" {
			r = c.grant()
		}
		c.events(r.WatchId, put("late", 2))
		synctest.Wait()
		assert.Equal(t, []int64{2}, late.revisions())
	})
}

// A stream would keep the connection to a member that the client no longer uses.
func TestAStreamLeavesAMemberThatIsNoLongerListed(t *testing.T) {
	inBubble(t, benchConfig{members: 2, sync: 2 * time.Second}, func(t *testing.T, b *bench) {
		_, seen := b.watch("stays", "", 1)
		first := b.accept()
		go first.grantAll()                     // so that it is not silent
		other := uint64(2 - first.member.index) // the number of the other one, counted from 1
		b.mu.Lock()
		b.listed = []*pb.Member{{ID: other, Name: "other", ClientURLs: []string{fmt.Sprintf("http://member%d:2379", other-1)}}}
		b.mu.Unlock()

		next := b.accept()
		assert.Equal(t, int(other-1), next.member.index)
		<-first.gone
		r := next.grant()
		next.events(r.WatchId, put("stays", 2))
		synctest.Wait()
		assert.Equal(t, []int64{2}, seen.revisions())
	})
}

func TestACancelThatComesWhileItsLinkEndsHoldsUpNoOther(t *testing.T) {
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		ignore := func(Update) {}
		_, _ = b.watch("stays", "", 1)
		w1, w2 := b.watchDeletion("1", 1, ignore), b.watchDeletion("2", 1, ignore)
		c := b.accept()
		for range 3 {
			c.grant()
		}
		synctest.Wait()
		c.whileItEnds(func() {
			w1.Cancel()
			time.Sleep(sweepAfter)
		})
		c = b.accept()
		assert.Equal(t, "stays", string(c.grant().Key))
		r := c.grant()
		assert.Equal(t, "2", string(r.Key))
		synctest.Wait()
		w2.Cancel()
		began := time.Now()
		assert.Equal(t, r.WatchId, c.canceled())
		assert.Equal(t, sweepAfter, time.Since(began))
	})
}
