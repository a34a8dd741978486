//go:build !linux

package cluster

import "net"

// limitSilence does nothing. Other systems have no such limit for a single connection.
func limitSilence(net.Conn) {}
