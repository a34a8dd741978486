package supervise

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ask asks the guardian whether the job is stopped, and passes it the proof, if there is one. Processes of the
// command may have closed theirs, and live on for the grace after a holder was killed.
func (l *Link) ask(proof *os.File) error {
	conn, ok := l.conn.(*net.UnixConn)
	if proof == nil || !ok {
		_, err := l.conn.Write([]byte{askAwake})
		return err
	}
	raw, err := proof.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		_, _, failed = conn.WriteMsgUnix([]byte{askAwake}, unix.UnixRights(int(fd)), nil)
	}); err != nil { // it is closed, so what it proves has ended
		_, failed = conn.Write([]byte{askAwake})
	}
	return failed
}

// A question is whether the job is stopped.
type question struct{ proof *os.File } // nil if none came with it

// questions returns a channel that receives each question.
func questions(conn *net.UnixConn) <-chan question {
	asked := make(chan question)
	go func() { // ends with the holder, or with the process
		for buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4)); ; {
			n, rights, _, _, err := conn.ReadMsgUnix(buf, oob)
			if err != nil || n == 0 {
				return
			}
			asked <- question{proofIn(oob[:rights])}
		}
	}()
	return asked
}

// proofIn is the file that came with a message, or nil.
func proofIn(rights []byte) *os.File {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "proof")
}

// keep keeps a run's proof, in place of that of the run before, until this process ends.
func (g *guardian) keep(proof *os.File) {
	if proof == nil {
		return
	}
	if g.proof != nil {
		g.proof.Close()
	}
	g.proof = proof
}
