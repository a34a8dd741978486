package etcdtest

import (
	"os"
	"sync"
	"testing"
)

// superviseEnv names the environment variable that makes a member's process put its disk's writes
// under our control before it becomes the server. Its value is the binary to become, or "" for the
// test binary.
const superviseEnv = "PAWL_ETCDTEST_SUPERVISE"

// disk delays what a member waits for on its disk. The kernel reports every fsync and fdatasync of
// the process to us, and the call continues when we say so.
type disk struct {
	mu       sync.Mutex
	channel  [2]*os.File // our end and the process's, through which its listener comes here
	listener *os.File    // of announcements; nil if the disk cannot be stalled
	stalled  bool
	held     []uint64 // announcements not answered
	wg       sync.WaitGroup
}

// StallDisk makes every write that the member waits for block until Heal, like a disk that hangs.
// The process still runs: it receives messages from its peers, and answers what needs no disk.
// Reads of keys may wait for a write. The cluster must have been started with StallableDisk.
//
// A full disk, a slow one, and one that loses what it has confirmed would need root's privileges.
// For a full database see Cluster.FillQuota.
func (m *Member) StallDisk(t testing.TB) {
	t.Helper()
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if m.disk.listener == nil {
		t.Fatalf("etcdtest: stall a disk: member %s was not started with StallableDisk, or does not run", m.name)
	}
	m.disk.stalled = true
}

// release lets all delayed calls continue.
func (d *disk) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stalled = false
	for _, id := range d.held {
		d.proceed(id)
	}
	d.held = nil
}

// end forgets a process that has ended.
func (d *disk) end() {
	d.wg.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener != nil {
		_ = d.listener.Close()
	}
	d.listener, d.stalled, d.held = nil, false, nil
}
