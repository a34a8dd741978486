// Package top has the command that shows in a terminal, live, who holds and who waits. A board is
// the content, and is pure. A viewer decides what the terminal shows of it, and what keys do.
//
// It queries only the leases of the visible rows, and remembers at most 2,000 names whose queue
// is empty.
package top
