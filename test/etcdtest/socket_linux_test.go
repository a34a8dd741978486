package etcdtest

import (
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheSocketOfAConnectionIsFound(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	conn, err := net.Dial("tcp4", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	f, err := conn.(*net.TCPConn).File()
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	own := strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10)
	local, remote := conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr)
	for name, find := range map[string]func(local, remote *net.TCPAddr) (string, bool){"either way": socketOf, "in the table": listed} {
		inode, ok := find(local, remote)
		assert.True(t, ok, name)
		assert.Equal(t, inode, own, name)
		_, ok = find(local, &net.TCPAddr{IP: remote.IP, Port: 1})
		assert.False(t, ok, name)
	}
	if inode, ok := diagnosed(local, remote); ok { // where the kernel knows it
		assert.Equal(t, inode, own)
	}
}
