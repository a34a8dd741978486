//go:build !linux

package etcdtest

import "net"

// clusters reports that StartCluster does not work here, because nothing says which process a
// connection comes from.
const clusters = false

func socketOf(_, _ *net.TCPAddr) (inode string, ok bool) { return "", false }

func holds(int, string) bool { return false }
