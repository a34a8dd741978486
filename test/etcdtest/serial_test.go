package etcdtest

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"
)

// serial is the serial number of the certificate that the first member shows.
func serial(t *testing.T, c *Cluster) string {
	t.Helper()
	conn, err := tls.Dial("tcp", c.Member(0).Addr(), c.TLS("root"))
	require.NoError(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}
