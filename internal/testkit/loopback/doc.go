// Package loopback gives tests ports of the loopback interface that stay their
// own: between closing a listener and opening it again, no other process can
// take the port.
package loopback
