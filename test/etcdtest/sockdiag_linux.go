package etcdtest

import (
	"encoding/binary"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// This is the layout of sock_diag(7), in bytes: the header of netlink, then the request or the
// answer.
const (
	diagHeader  = unix.NLMSG_HDRLEN
	diagID      = 8  // in a request, the socket's ports, addresses, interface and cookie
	diagRequest = 56 // its length
	diagInode   = 68 // in an answer, the socket's inode
	diagAnswer  = 72 // its least length

	sockDiagByFamily = 20 // SOCK_DIAG_BY_FAMILY
)

// diagnosed is socketOf by sock_diag(7), which finds one socket without a walk over all.
func diagnosed(local, remote *net.TCPAddr) (inode string, ok bool) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return "", false
	}
	if err := unix.Sendto(fd, diagnose(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return "", false
	}
	answer := make([]byte, 1024)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < diagHeader+diagAnswer || binary.NativeEndian.Uint16(answer[4:]) != sockDiagByFamily {
		return "", false // also if there is no such socket, or the kernel does not know sock_diag
	}
	number := binary.NativeEndian.Uint32(answer[diagHeader+diagInode:])
	return strconv.FormatUint(uint64(number), 10), number != 0
}

// diagnose is the request for one IPv4 socket.
func diagnose(local, remote *net.TCPAddr) []byte {
	b := make([]byte, diagHeader+diagRequest)
	host := binary.NativeEndian
	host.PutUint32(b, uint32(len(b)))
	host.PutUint16(b[4:], sockDiagByFamily)
	host.PutUint16(b[6:], unix.NLM_F_REQUEST)
	r := b[diagHeader:]
	r[0], r[1] = unix.AF_INET, unix.IPPROTO_TCP
	host.PutUint32(r[4:], 1<<32-1) // in any state
	id := r[diagID:]
	binary.BigEndian.PutUint16(id, uint16(local.Port))
	binary.BigEndian.PutUint16(id[2:], uint16(remote.Port))
	copy(id[4:], local.IP.To4())
	copy(id[20:], remote.IP.To4())
	host.PutUint64(id[40:], 1<<64-1) // no cookie
	return b
}
