// Package top has the command that shows live in a terminal who holds and who waits. A board is what was read and
// counted, and pure; a viewer is what the terminal shows of it, and which keys do what.
//
// It queries only the leases of the visible rows, and remembers at most 2,000 names whose queue is empty.
package top
