package hold

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/lock"
)

// progressVariable names, for a command under --stall, the file that it touches.
const progressVariable = "PAWL_PROGRESS"

// leastStall is the least --stall.
const leastStall = time.Second

// checkStall reports what excludes --stall.
func (o *commonOptions) checkStall(argv []string) error {
	switch {
	case o.stall == 0:
		return nil
	case time.Duration(o.stall) < leastStall:
		return cli.Usage("--stall is %v, want at least %v", time.Duration(o.stall), leastStall)
	case len(argv) == 0:
		return cli.Usage("--stall wants a COMMAND, which touches the file that %s names", progressVariable)
	}
	return nil
}

// stallOf is the Stall of what the command runs under. The command is ended a notice before the end of what it
// runs under, so that it is ended a --stall after its last progress.
func (o *commonOptions) stallOf(grace time.Duration) time.Duration {
	if o.stall == 0 {
		return 0
	}
	return time.Duration(o.stall) + supervise.Notice(grace)
}

// makeProgressFile makes the file that the command touches, in a directory that only its user may enter, and
// names it for the processes that this one starts.
func makeProgressFile() (remove func(), err error) {
	dir, err := os.MkdirTemp("", "pawl-progress-")
	if err != nil {
		return nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	path := filepath.Join(dir, "progress")
	err = errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, os.Getuid(), os.Getgid()), os.Chown(dir, os.Getuid(), os.Getgid()), os.Setenv(progressVariable, path))
	if err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// A progress watches the file that a command touches. A nil progress watches nothing.
type progress struct {
	path    string
	stall   time.Duration
	command string
	report  func() error // Progress of what the command runs under
	begin   clock.Instant
	last    clock.Instant // the look that saw the last change; begin if none did
	known   os.FileInfo   // as it was seen last
	stop    chan struct{}
	stopped chan struct{}
}

// watchProgress watches the file until ended is called. The time counts from now. Only that the file changed from
// one look to the next is progress, not the time that it shows, which is another clock's. One that is gone is none.
func (o *commonOptions) watchProgress(command string, report func() error) *progress {
	if o.stall == 0 {
		return nil
	}
	now := clock.Now()
	p := &progress{
		path: os.Getenv(progressVariable), stall: time.Duration(o.stall), command: command, report: report, begin: now, last: now,
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	p.known, _ = os.Stat(p.path)
	_ = report()
	go p.watch() // ends with ended, which waits for it
	return p
}

func (p *progress) watch() {
	defer close(p.stopped)
	look := time.NewTicker(min(p.stall/10, time.Second))
	defer look.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-look.C:
			p.look()
		}
	}
}

// look reports progress if the file has changed since the last look.
func (p *progress) look() {
	now := clock.Now()
	is, err := os.Stat(p.path)
	if err != nil || p.known != nil && os.SameFile(is, p.known) && is.ModTime().Equal(p.known.ModTime()) && is.Size() == p.known.Size() {
		return
	}
	p.known = is
	if p.report() == nil {
		p.last = now
	}
}

// ended stops watching.
func (p *progress) ended() {
	if p != nil {
		close(p.stop)
		<-p.stopped
	}
}

// stalls returns how the command ended: err, unless it was ended because it had stalled, notice before that would
// have ended what it runs under. other is when that would have ended otherwise. It is called after ended.
func (p *progress) stalls(err error, notice time.Duration, other time.Time) error {
	if p == nil {
		return err
	}
	now := clock.Now()
	switch {
	case errors.Is(err, lock.ErrStalled):
	case !errors.Is(err, supervise.ErrRunningOut), now.Before(p.last.Add(p.stall)), other.Before(p.last.Add(p.stall + notice).Time(now)):
		return err
	}
	if p.last == p.begin {
		return cli.Exit(cli.ExitStalled, fmt.Errorf("%s has not touched %s for %v, and was ended", p.command, progressVariable, p.stall))
	}
	return cli.Exit(cli.ExitStalled, fmt.Errorf("%s has stalled, and was ended: it last touched %s %v ago", p.command, progressVariable, p.stall))
}

// whileStopped says that the time counts though the job is stopped.
func (p *progress) whileStopped() func() {
	if p == nil {
		return nil
	}
	return func() {
		warn(fmt.Sprintf("%s is stopped, and --stall counts: it is ended unless it goes on and touches %s within %v of the last time", p.command, progressVariable, p.stall))
	}
}
