// Package top has the command that shows live in a terminal who holds and who waits. A board is what was read and
// counted, and pure; a viewer is what the terminal shows of it, and which keys do what.
//
// It asks for the leases of the rows in sight alone, and remembers at most 2,000 names that nobody wants any more.
package top
