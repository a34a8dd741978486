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
	inode, ok := socketOf(local, remote)
	assert.True(t, ok)
	assert.Equal(t, own, inode)
	_, ok = socketOf(local, &net.TCPAddr{IP: remote.IP, Port: 1})
	assert.False(t, ok)
}
