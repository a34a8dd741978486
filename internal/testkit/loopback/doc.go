// Package loopback reserves ports of the loopback interface for tests. Between closing a listener
// and opening it again, no other process can take the port.
package loopback
