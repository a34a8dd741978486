package main

import (
	"encoding/json"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// left are the files that a program left in its temporary directory.
func (p *program) left(t *testing.T) []os.DirEntry {
	t.Helper()
	all, err := os.ReadDir(p.tmp)
	require.NoError(t, err)
	return all
}

// all is what a program says until its end.
func (p *program) all() string {
	var said strings.Builder
	for out := p.lines(); out.Scan(); {
		said.WriteString(out.Text() + "\n")
	}
	return said.String()
}

// matches are the first groups of all matches in text.
func matches(text, pattern string) (all []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestDemoShowsWhatItSaysAndLeavesNothing(t *testing.T) {
	t.Parallel()
	p := begin(t, "127.0.0.1:1", "demo") // it must not look for a cluster
	said := p.all()
	require.Equal(t, 0, p.code(t), said)
	assert.Equal(t, []string{"1", "2", "3"}, matches(said, `(?m)^(\d)\. `))
	assert.Equal(t, []string{"ann", "ben", "cleo", "dan", "eve"}, matches(said, `(\w+) +queues at place`))
	assert.Contains(t, said, "15 increments were made and 15 arrived")
	assert.Regexp(t, `fay +token \d+ +checks: lost`, said)
	assert.Regexp(t, `store +token \d+ +refuses: fencing: stale token`, said)
	assert.Regexp(t, `lee +is killed`, said)
	assert.Contains(t, said, "got its share: 3 moved, 9 stayed")
	assert.Empty(t, p.left(t))
}

func TestDemoThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	p := begin(t, "127.0.0.1:1", "demo")
	out := p.lines()
	for !strings.Contains(next(t, out), "is stopped: process") {
	}
	require.NoError(t, p.cmd.Process.Signal(unix.SIGINT))
	assert.Equal(t, 130, p.code(t))
	assert.Empty(t, p.left(t))
}

// A signal while pawl connects is as one later: those that follow end with 0, a query dies of INT.
func TestASignalWhileItConnectsEndsIt(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, silent.Close()) })
	for _, args := range [][]string{{"observe", "a"}, {"watch"}, {"ls"}} {
		p := begin(t, silent.Addr().String(), append(args, "--dial-timeout", testscale.Hang.String())...)
		c, err := silent.Accept()
		require.NoError(t, err)
		require.NoError(t, p.cmd.Process.Signal(unix.SIGINT))
		code, died := p.code(t), p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal()
		if args[0] == "ls" {
			assert.Equal(t, unix.SIGINT, died, "so that a loop of the shell ends")
		} else {
			assert.Equal(t, 0, code, args)
		}
		assert.NoError(t, c.Close())
	}
}

var servesOn = regexp.MustCompile(`^etcd serves on (\S+), data in \S+ \(temporary\)`)

func TestDevServesUntilASignal(t *testing.T) {
	t.Parallel()
	p := begin(t, "", "dev", "--port", "0")
	out := p.lines()
	serving := servesOn.FindStringSubmatch(next(t, out))
	require.NotNil(t, serving)
	assert.Equal(t, 0, begin(t, serving[1], "lock", "a", "--", "true").code(t))

	_, port, err := net.SplitHostPort(serving[1])
	require.NoError(t, err)
	second := begin(t, "", "dev", "--port", port)
	assert.Equal(t, cli.ExitFailed, second.code(t))
	assert.Contains(t, second.stderr.String(), "address already in use")

	require.NoError(t, p.cmd.Process.Signal(unix.SIGINT))
	assert.Equal(t, 0, p.code(t))
	assert.Empty(t, p.left(t))
}

func TestASilentServerIsNoCluster(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	proxy := faultproxy.Start(t, s.Addr())
	proxy.BlackHole()
	p := begin(t, proxy.Addr(), "lock", "--dial-timeout", "0.5s", "a", "--", "true")
	assert.Equal(t, cli.ExitNoCluster, p.code(t))
	assert.Contains(t, p.stderr.String(), proxy.Addr())
}

func TestAWaiterWhoseClusterFallsSilentGivesUp(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	proxy := faultproxy.Start(t, s.Addr())
	holder := begin(t, s.Addr(), "lock", "w", "--", "sh", "-c", "echo held; exec sleep 1000")
	next(t, holder.lines())
	waiter := begin(t, proxy.Addr(), "lock", "--ttl", "3", "w", "--", "echo", "ran")
	eventually(t, func() bool { return countKeys(t, s) == 4 }, "it does not queue")
	proxy.BlackHole()
	assert.Equal(t, cli.ExitNoCluster, waiter.code(t))
	require.NoError(t, holder.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, 143, holder.code(t), "sleep was sent it")
}

// said is a line of pawl elect --json.
type said struct {
	Event string
	Term  int64
	Token int64
	Cause string
}

func TestElectRunsItsCommandAgainAtEachNewTerm(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := begin(t, s.Addr(), "elect", "chief", "me", "--", "sh", "-c", `echo "$PAWL_TOKEN"; exec sleep 1000`)
	out := p.lines()
	last := 0
	for range 3 {
		token := pid(t, out)
		assert.Greater(t, token, last)
		last = token
		revoke(t, s)
	}
	assert.Greater(t, pid(t, out), last)
	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	assert.Equal(t, 143, p.code(t), "the command's own end")
	requireNothingLeft(t, s)
}

func TestElectSaysWhyATermEnded(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	p := begin(t, s.Addr(), "elect", "--json", "chief", "me")
	out := p.lines()
	line := func() (l said) {
		require.NoError(t, json.Unmarshal([]byte(next(t, out)), &l))
		return l
	}
	first := line()
	assert.Equal(t, "elected", first.Event)
	revoke(t, s)
	lost := line()
	assert.Equal(t, "lost", lost.Event)
	assert.Regexp(t, lostWithItsLease, lost.Cause)
	again := line()
	for again.Event == "retrying" {
		again = line()
	}
	assert.Equal(t, said{Event: "elected", Term: 2, Token: again.Token}, again)
	assert.Greater(t, again.Token, first.Token)
	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	end := line()
	end.Cause = "" // whether the resignation was answered within the 100 ms that are left to it
	assert.Equal(t, said{Event: "resigned", Term: 2, Token: again.Token}, end)
	assert.Equal(t, 0, p.code(t))
	requireNothingLeft(t, s)
}

// seen is a line of pawl observe --json.
type seen struct {
	Name, Key, Value string
	Token, Revision  int64
}

func TestObserveSeesEachChange(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	people, programs := begin(t, s.Addr(), "observe", "chief"), begin(t, s.Addr(), "observe", "--json", "chief")
	lines, objects := people.lines(), programs.lines()
	object := func() (o seen) {
		require.NoError(t, json.Unmarshal([]byte(next(t, objects)), &o))
		assert.Positive(t, o.Revision)
		return o
	}
	nobody := func() {
		assert.Contains(t, next(t, lines), `nobody leads "chief"`)
		o := object()
		assert.Equal(t, seen{Name: "chief", Revision: o.Revision}, o)
	}
	nobody()
	for i := range 2 {
		value := "v" + strconv.Itoa(i)
		leader := begin(t, s.Addr(), "elect", "chief", value)
		assert.Contains(t, next(t, leader.lines()), "elected")
		assert.Contains(t, next(t, lines), `"`+value+`" leads "chief": key=chief/`)
		o := object()
		assert.Equal(t, seen{Name: "chief", Key: o.Key, Value: value, Token: o.Token, Revision: o.Token}, o)
		assert.Contains(t, o.Key, "chief/")
		require.NoError(t, leader.cmd.Process.Signal(unix.SIGTERM))
		assert.Equal(t, 0, leader.code(t))
		nobody()
	}
	for _, p := range []*program{people, programs} {
		require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
		assert.Equal(t, 0, p.code(t))
	}
	requireNothingLeft(t, s)
}
