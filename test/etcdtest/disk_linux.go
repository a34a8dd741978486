package etcdtest

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are from <linux/seccomp.h>, because package unix does not have them.
const (
	setModeFilter   = 1
	flagNewListener = 1 << 3
	retNotify       = 0x7fc00000
	retAllow        = 0x7fff0000
	continueCall    = 1
	ioctlReceive    = 0xc0502100
	ioctlSend       = 0xc0182101
)

// announcement is the kernel's struct seccomp_notif.
type announcement struct {
	id         uint64
	pid, flags uint32
	_          [64]byte // which call it is; we requested only two
}

// verdict is the kernel's struct seccomp_notif_resp.
type verdict struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// channelFD is the number of the channel in the process: the first extra file.
const channelFD = 3

// prepare makes a process that is about to be started send its listener.
func (d *disk) prepare(cmd *exec.Cmd, stallable bool) error {
	if !stallable {
		return nil
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d.channel = [2]*os.File{os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")}
	cmd.ExtraFiles = []*os.File{d.channel[1]}
	return nil
}

// start starts the process, and waits for its listener if it sends one.
func (d *disk) start(cmd *exec.Cmd) error {
	ours, theirs := d.channel[0], d.channel[1]
	d.channel = [2]*os.File{}
	err := cmd.Start()
	if ours == nil {
		return err
	}
	_ = theirs.Close()
	defer ours.Close()
	if err != nil {
		return err
	}
	listener, err := receiveFile(ours)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("supervise the disk: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listener = listener
	d.wg.Go(func() { d.answer(int(listener.Fd())) }) // ends with the process
	return nil
}

func receiveFile(from *os.File) (*os.File, error) {
	conn, err := net.FileConn(from)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(startTimeout))
	text, oob := make([]byte, 200), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(text, oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) == 0 {
		return nil, fmt.Errorf("the kernel does not allow it: %s", text[:n])
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "seccomp"), nil
}

// answer lets each announced call go on, or holds it up.
func (d *disk) answer(fd int) {
	for {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && err != unix.EINTR {
			return
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			if poll[0].Revents != 0 {
				return // no process is left
			}
			continue
		}
		var a announcement
		if !ioctl(fd, ioctlReceive, unsafe.Pointer(&a)) {
			continue // its thread is gone
		}
		d.mu.Lock()
		if d.stalled {
			d.held = append(d.held, a.id)
		} else {
			d.proceed(a.id)
		}
		d.mu.Unlock()
	}
}

// proceed lets a call continue. It does nothing if the call's thread is gone.
func (d *disk) proceed(id uint64) {
	if d.listener != nil {
		ioctl(int(d.listener.Fd()), ioctlSend, unsafe.Pointer(&verdict{id: id, flags: continueCall}))
	}
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) bool {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	return errno == 0
}

// supervised puts the calls of this process that wait for the disk under the control of the one
// that started it, and becomes the server. It must be called on the main thread, as package
// initialisation is, because the filter applies to a thread, and to what it becomes.
func supervised(binary, config string) int {
	listener, err := filterSyncs()
	if err != nil {
		_ = unix.Sendmsg(channelFD, []byte(err.Error()), nil, nil, 0)
		fmt.Fprintln(os.Stderr, "supervise:", err)
		return 1
	}
	if err := unix.Sendmsg(channelFD, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
		return 1
	}
	_ = unix.Close(listener)
	_ = unix.Close(channelFD)
	_ = os.Unsetenv(superviseEnv)
	args := []string{"etcd", "--config-file", config}
	err = syscall.Exec(cmp.Or(binary, "/proc/self/exe"), args, os.Environ())
	fmt.Fprintln(os.Stderr, "exec:", err)
	return 1
}

// filterSyncs announces fsync and fdatasync, and nothing else.
func filterSyncs() (listener int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 2, K: unix.SYS_FSYNC},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_FDATASYNC},
		{Code: unix.BPF_RET | unix.BPF_K, K: retAllow},
		{Code: unix.BPF_RET | unix.BPF_K, K: retNotify},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, flagNewListener, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}
