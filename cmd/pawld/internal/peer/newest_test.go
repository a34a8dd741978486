package peer

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pipes is a listener that accepts what a test gives it.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	default:
		return nil, net.ErrClosed // the last one was refused
	}
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// from is a connection of a host.
type from struct {
	net.Conn
	host   byte
	closed bool
}

func (c *from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, c.host), Port: 1} }
func (c *from) Close() error         { c.closed = true; return nil }

// Whatever is open, of one host or of several: a newcomer is accepted, in the place of its host's oldest
// connection, or else of the oldest.
func TestANewcomerTakesThePlaceOfTheOldest(t *testing.T) {
	for name, c := range map[string]struct {
		hosts  string // whose connections are open, the oldest first
		host   byte   // the newcomer's
		closes int    // the number of the one that ends, or -1
	}{
		"there is room":                          {"ab", 'a', -1},
		"its host has its half":                  {"bab", 'b', 0},
		"its host has its half, and others more": {"abb", 'b', 1},
		"all are others'":                        {"aabb", 'c', 0},
		"all are taken, one is its host's":       {"aabc", 'c', 3},
	} {
		t.Run(name, func(t *testing.T) {
			limit, in := NewLimit("connections", 4), pipes{make(chan net.Conn, 8)}
			var refused []error
			l := limit.ListenNewest(in, func(err error) { refused = append(refused, err) })
			var open []*from
			for _, host := range []byte(c.hosts + string(c.host)) {
				conn := &from{host: host}
				open = append(open, conn)
				in.conns <- conn
				got, err := l.Accept()
				require.NoError(t, err)
				require.Equal(t, net.Conn(conn), got.(*taken).Conn, "it is accepted")
			}
			for i, conn := range open {
				assert.Equal(t, i == c.closes, conn.closed, i)
			}
			want := len(open)
			if c.closes >= 0 {
				want--
				assert.Len(t, refused, 1, "it is reported")
			}
			now, _ := limit.Counts()
			assert.Equal(t, want, now)
		})
	}
}
