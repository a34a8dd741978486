//go:build linux

package matrix

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// The soak's environment: for how long, and where its page is.
const (
	soakEnv     = "PAWL_SOAK"
	soakPageEnv = "PAWL_SOAK_PAGE"
)

// workers is how many processes take part.
const workers = 3

// TestSoak has three processes take two names, one or both, shared or exclusive, and slots of a
// semaphore, and lead one election, again and again, with a fault of the table in each round and
// one of the processes stopped every few seconds, and checks each round's history, and what is
// left of it. It lasts for one short round, in the proof for 90 s, or for PAWL_SOAK.
func TestSoak(t *testing.T) {
	t.Parallel()
	lasts := lasting(t, soakEnv, testscale.Of(0, 90*time.Second))
	s := newSoak(t)
	s.brief = lasts == 0
	if s.run(t, lasts); t.Failed() {
		return
	}
	t.Log("\n" + s.sum.String() + "\n" + s.sum.data())
	require.NoError(t, publish("soak", s.sum.String(), s.sum.data()))
}

// lasting is how long a soak lasts according to a variable of the environment, or otherwise if it is
// not set. 0 means one round.
func lasting(t *testing.T, variable string, otherwise time.Duration) time.Duration {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	lasts, err := time.ParseDuration(text)
	require.NoError(t, err, variable)
	return lasts
}

// run runs rounds for so long, and one at least, until one fails.
func (s *soak) run(t *testing.T, lasts time.Duration) {
	for began := time.Now(); !t.Failed() && (s.sum.Rounds == 0 || time.Since(began) < lasts); s.sum.Lasted = time.Since(began) {
		s.round(t)
	}
}

// soak is a cluster, and the processes that use it.
type soak struct {
	c      *etcdtest.Cluster
	rand   *rand.Rand
	faults []fault // those that a cluster without TLS and users can have
	left   []fault // of them, until each has had its turn
	full   full
	brief  bool // the round is as short as can be
	crew   []*process
	sum    summary
}

// process is a worker from outside.
type process struct {
	cmd    *exec.Cmd
	orders *json.Encoder
	said   chan saying
}

func newSoak(t *testing.T) *soak {
	seed := testscale.Seed(t)
	s := &soak{rand: rand.New(rand.NewPCG(seed, 0)), sum: newSummary(seed)}
	o := quota
	o.StallableDisk = true
	for _, f := range faults {
		if !f.auth && !f.options.TLS {
			s.faults = append(s.faults, f)
		}
	}
	s.c = etcdtest.StartClusterWith(t, 3, o)
	for n := range workers {
		s.crew = append(s.crew, s.start(t, n))
	}
	return s
}

// start starts a worker that dies with this process.
func (s *soak) start(t *testing.T, n int) *process {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", workerEnv, n, strings.Join(s.c.Endpoints(), ",")))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	started := make(chan error)
	exited := make(chan struct{})
	p := &process{cmd: cmd, orders: json.NewEncoder(in), said: make(chan saying, 1000)}
	go func() { // ends with the process
		runtime.LockOSThread() // its end would be taken for the parent's
		defer close(exited)
		err := cmd.Start()
		if started <- err; err != nil {
			return
		}
		p.listen(out)
		_ = cmd.Wait()
	}()
	require.NoError(t, <-started)
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Signal(syscall.SIGCONT)
		kill := time.AfterFunc(recovery, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		for range p.said { // until it has ended
		}
		<-exited
	})
	return p
}

func (p *process) listen(out io.Reader) {
	defer close(p.said)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		var s saying
		if err != nil || json.Unmarshal(line, &s) != nil {
			return
		}
		p.said <- s
	}
}

// next is a fault at random, and none again before each had its turn.
func (s *soak) next() (f fault) {
	if len(s.left) == 0 {
		s.left = slices.Clone(s.faults)
		s.rand.Shuffle(len(s.left), func(i, j int) { s.left[i], s.left[j] = s.left[j], s.left[i] })
	}
	f, s.left = s.left[0], s.left[1:]
	return f
}

// round has the workers compete while one fault strikes, and checks what came of
// it.
func (s *soak) round(t *testing.T) {
	s.c.FreeQuota(t) // what earlier rounds have written fills it, and then nobody can write any more
	s.sum.Rounds++
	f := s.next()
	if f.lasts == 0 {
		f.lasts = time.Second + time.Duration(s.rand.Int64N(int64(6*time.Second)))
	}
	ttl := []time.Duration{3, 5, 10}[s.rand.IntN(3)] * time.Second
	if f.outlives {
		f.lasts = ttl + 3*time.Second
	}
	if s.brief {
		ttl, f.lasts = 3*time.Second, min(f.lasts, time.Second)
	}
	w := &fixture{c: s.c, fault: f, name: fmt.Sprintf("round-%d", s.sum.Rounds), rec: history.NewRecorder(history.Clock), spares: true, struck: map[string]int{}}
	w.targets = w.name
	defer func() {
		if t.Failed() {
			t.Logf("round %d was: %s for %v", s.sum.Rounds, f.name, f.lasts)
		}
	}()
	oracle, err := clientv3.New(clientv3.Config{Endpoints: direct(s.c), Logger: zap.NewNop(), DialTimeout: testscale.Hang})
	require.NoError(t, err)
	defer func() { _ = oracle.Close() }()
	w.oracle = oracle
	seen, unwatch := watchUntil(t, w)
	defer unwatch()
	w.seen = seen
	store := newSets(t)
	for _, p := range s.crew {
		require.NoError(t, p.orders.Encode(order{w.name, ttl, store.server.URL, s.full}))
	}
	ended := make(chan struct{})
	var going sync.WaitGroup
	heard := heard{acquired: make([]int, workers), lost: map[string]int{}}
	for i, p := range s.crew {
		going.Go(func() { // ends when the worker has said that it is through
			if !heard.hear(i, p, w.rec) {
				t.Errorf("worker %d ended", i)
			}
		})
	}
	pause, each := ttl/2, 5
	if s.full == hundreds { // the sessions of all whose process is stopped end, and others go on with what they had
		pause, each = ttl, 500
	}
	if s.brief {
		each = 1
	}
	going.Go(func() { s.pauses(ended, store, pause, ttl) }) // ends after ended
	heard.await(t, each)
	struck := w.rec.Now()
	f.inject(t, w)
	for end := time.Now().Add(testscale.Hang); len(w.spared()) > 0; f.inject(t, w) { // nobody may have had such a key just then
		require.False(t, time.Now().After(end), "%s: never struck %q, only %v", f.name, w.spared(), w.struck)
		time.Sleep(50 * time.Millisecond) // until others have keys
	}
	time.Sleep(f.lasts)
	w.heal(t)
	heard.await(t, each)
	close(ended)
	for _, p := range s.crew {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		require.NoError(t, p.orders.Encode(order{}))
	}
	going.Wait()
	w.empty(t)
	ops := w.rec.Ops()
	w.seen.caughtUp(t, w)
	w.seen.check(t, ops, ttl)
	checked := ops
	if len(f.strikes) > 0 {
		checked = seen.excused(ops, struck)
	}
	history.Check(t, checked)
	lost, confirmed := store.lost("fenced")
	assert.Zero(t, lost, "of %d confirmed elements of fenced sets", confirmed)
	s.sum.add(w, ops, checked, heard.lost, store)
	s.sum.sent.add(heard.sent)
	t.Logf("round %d: %s for %v, TTL %v: %d operations, struck: %v, sent: %+v", s.sum.Rounds, f.name, f.lasts.Round(time.Millisecond), ttl, len(ops), w.struck, heard.sent)
}

// heard is what the workers reported of a round, beside their operations.
type heard struct {
	mu       sync.Mutex
	acquired []int          // by each worker
	lost     map[string]int // sessions, by cause
	sent     sent
}

// await waits until each worker has acquired something so many times more.
func (l *heard) await(t *testing.T, times int) {
	t.Helper()
	l.mu.Lock()
	before := slices.Clone(l.acquired)
	l.mu.Unlock()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, n := range l.acquired {
			if n < before[i]+times {
				return false
			}
		}
		return true
	}, testscale.Hang, 10*time.Millisecond, "each worker acquires something %d times", times)
}

// hear takes in what a worker says, until it is through with the round.
func (l *heard) hear(worker int, p *process, rec *history.Recorder) bool {
	for s := range p.said {
		switch {
		case s.Op != nil:
			rec.Add(*s.Op)
			if s.Op.Kind == history.Acquire && s.Op.Outcome == history.OK {
				l.mu.Lock()
				l.acquired[worker]++
				l.mu.Unlock()
			}
		case s.Lost != "":
			l.mu.Lock()
			l.lost[s.Lost]++
			l.mu.Unlock()
		default:
			l.mu.Lock()
			l.sent.add(s.Sent)
			l.mu.Unlock()
			return true
		}
	}
	return false
}

// pauses stops a worker every few seconds, in a brief round once: the one that is between its read and
// its write, if there is one; for as long as pause, and for up to a TTL more, so that its
// session ends or, where pause is shorter than a TTL, may not.
func (s *soak) pauses(ended <-chan struct{}, store *sets, pause, ttl time.Duration) {
	wait := func(d time.Duration) bool {
		select {
		case <-ended:
			return false
		case <-time.After(d):
			return true
		}
	}
	rnd := rand.New(rand.NewPCG(s.sum.Seed, 1)) // beside the one of the faults
	for wait(time.Second + time.Duration(rnd.Int64N(int64(4*time.Second)))) {
		n, ok := store.holder()
		for tries := 100; !ok && tries > 0 && wait(5*time.Millisecond); tries-- {
			n, ok = store.holder()
		}
		if !ok {
			n = rnd.IntN(workers)
		}
		if err := s.crew[n].cmd.Process.Signal(syscall.SIGSTOP); errors.Is(err, os.ErrProcessDone) {
			return
		}
		s.sum.paused()
		going := wait(pause + time.Duration(rnd.Int64N(int64(ttl))))
		_ = s.crew[n].cmd.Process.Signal(syscall.SIGCONT)
		if !going || s.brief {
			return
		}
	}
}
