// Package wire is a network in memory. Its connections have buffers of the size of a socket's, over
// links that can be held, delayed and broken.
//
// It guarantees:
//
//  1. Bytes arrive in the order in which they were written, once, and not before
//     the link's delay at their writing has passed.
//  2. What is held arrives after the link is released. A writer into a held link does not notice it
//     until Buffer bytes are on their way.
//  3. A connection that is reset fails at both ends at once, and loses what was on its way. One
//     that is closed still delivers it.
//
// It works inside a testing/synctest bubble, and starts no goroutine.
package wire
