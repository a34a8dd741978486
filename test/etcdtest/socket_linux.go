package etcdtest

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strings"
)

// clusters reports that StartCluster works here.
const clusters = true

// socketOf finds the inode of the socket at the other end of a connection on this machine, in the table of
// all sockets. local is that socket's address.
func socketOf(local, remote *net.TCPAddr) (inode string, ok bool) {
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		return "", false
	}
	want := procAddr(local) + " " + procAddr(remote)
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 9 && f[1]+" "+f[2] == want {
			return f[9], f[9] != "0"
		}
	}
	return "", false
}

// procAddr is an IPv4 address as /proc writes it.
func procAddr(a *net.TCPAddr) string {
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(a.IP.To4()), a.Port)
}

// holds reports whether a process has a socket open.
func holds(pid int, inode string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if link, err := os.Readlink(dir + "/" + e.Name()); err == nil && link == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}
