package supervise

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// linkVariable contains, for a holder, the descriptors that it inherited from its guardian, and the
// job's process group.
const linkVariable = "PAWL_GUARDIAN"

// These are the messages of the link, a byte each. From the guardian a signal's number comes as
// itself, or with fromTerminal added if the terminal sent it to the whole job.
const (
	askAwake     = 'a' // from the holder: is the job stopped?
	isAwake      = 0   // from the guardian: it is not
	fromTerminal = 0x80
)

// ErrGuardianGone is why a command is ended after its guardian was killed.
var ErrGuardianGone = errors.New("the pawl process that watches this one was killed")

// A Link is the holder's end of the connection to its guardian.
type Link struct {
	Signals *Signals // the signals that the guardian receives
	conn    io.ReadWriter
	shared  *sharedMemory
	group   int           // the job's process group
	parent  int           // the guardian
	ttou    bool          // the guardian does not ignore TTOU
	awake   chan struct{} // the guardian said that the job is not stopped
	gone    chan struct{} // closed when the guardian has ended
	runs    int64         // of commands so far
	pairs   pairs
}

// Inherited is the link to the guardian that started this process, or nil if none did. It is called
// once, before anything else is started.
func Inherited() (*Link, error) {
	text := os.Getenv(linkVariable)
	if text == "" {
		return nil, nil
	}
	_ = os.Unsetenv(linkVariable)
	var conn, shared uintptr
	l := &Link{parent: os.Getppid(), awake: make(chan struct{}, 1), gone: make(chan struct{})}
	if n, _ := fmt.Sscanf(text, "%d,%d,%d", &conn, &shared, &l.group); n != 3 {
		return nil, fmt.Errorf("%s is %q: pawl sets it itself", linkVariable, text)
	}
	unix.CloseOnExec(int(conn))
	unix.CloseOnExec(int(shared))
	file := os.NewFile(shared, "shared memory")
	defer file.Close()
	var err error
	if l.shared, err = mapSharedMemory(file); err != nil {
		return nil, err
	}
	if l.conn, err = openConn(os.NewFile(conn, "guardian")); err != nil {
		return nil, fmt.Errorf("the link to the guardian: %w", err)
	}
	// Signals from the terminal go to the job. This process's number is the one in the lock's
	// key, so a signal to it is meant for pawl.
	signals, own := make(chan Signal, 16), make(chan os.Signal, 16)
	notify(own, forwarded...)
	drop(unix.SIGTSTP, unix.SIGTTIN, unix.SIGPIPE)
	l.ignoreTTOU()
	l.Signals = &Signals{signals}
	go l.read(signals)         // ends with the guardian
	go l.passOwn(own, signals) // ends with the process
	return l, nil
}

// passOwn passes on the signals to this process, except those that the guardian received too.
func (l *Link) passOwn(own <-chan os.Signal, signals chan<- Signal) {
	for sig := range own {
		if number := sig.(syscall.Signal); l.pairs.first(number, byHolder, time.Now()) {
			signals <- Signal{Number: number}
		}
	}
}

// read receives what the guardian sends. The end of the stream counts as a KILL.
func (l *Link) read(signals chan<- Signal) {
	for buf := make([]byte, 1); ; {
		if _, err := io.ReadFull(l.conn, buf); err != nil {
			close(l.gone)
			signals <- Signal{Number: unix.SIGKILL}
			return
		}
		if buf[0] == isAwake {
			select {
			case l.awake <- struct{}{}:
			default: // an earlier answer is pending
			}
			continue
		}
		sig := Signal{Number: syscall.Signal(buf[0] &^ fromTerminal), Job: buf[0]&fromTerminal != 0}
		if sig.Job || l.pairs.first(sig.Number, byGuardian, time.Now()) {
			signals <- sig
		}
	}
}

// finish records that the last run has ended. If the guardian kills this process meanwhile, it does not
// return, unless the guardian is killed before.
func (l *Link) finish() {
	if !l.shared.finish(l.runs) {
		<-l.gone
	}
}

// ready returns when a command may start: h is held, the job is not stopped, and the guardian has h's proof.
func (l *Link) ready(h Holding) error {
	select {
	case <-l.awake: // an answer to an earlier question
	default:
	}
	if err := l.ask(h.Proof()); err != nil {
		return ErrGuardianGone
	}
	for {
		if err := h.Err(); err != nil {
			return err
		}
		select {
		case <-l.awake:
			return h.Err()
		case <-l.gone:
			return ErrGuardianGone
		case sig := <-l.Signals.C:
			if sig.Deadly() {
				return &Interrupted{sig.Number}
			}
		case <-h.Done():
		}
	}
}

// ignoreTTOU lets this process, which is always in the background, write to a terminal that is set
// to stop background writers.
func (l *Link) ignoreTTOU() {
	l.ttou = !signal.Ignored(unix.SIGTTOU)
	signal.Ignore(unix.SIGTTOU)
}

// withoutTTOU calls start with the guardian's disposition of TTOU, because a program inherits
// which signals are ignored.
func (l *Link) withoutTTOU(start func()) {
	if !l.ttou {
		start()
		return
	}
	// What is caught is as usual in a new program. signal.Reset does not undo Ignore.
	signal.Notify(make(chan os.Signal, 1), unix.SIGTTOU)
	defer signal.Ignore(unix.SIGTTOU)
	start()
}

// newConn makes the link's two ends.
func newConn() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	if ours, err = openConn(os.NewFile(uintptr(fds[0]), "holder")); err != nil {
		_ = unix.Close(fds[1])
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(fds[1]), "guardian"), nil
}

// openConn makes f, a Unix socket, a connection, and closes f.
func openConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("not a Unix socket"), conn.Close())
	}
	return local, nil
}
