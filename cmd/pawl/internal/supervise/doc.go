// Package supervise runs a command that may work only while something is held: a
// lock, or a term of leadership.
//
// Three processes take part. The guardian is the one that the user started. It
// starts this program again as the holder, which speaks to etcd, and which starts
// the command. The guardian and the command are in one process group, so that the
// terminal and the shell treat them as one job; the holder is in a group of its
// own, so that what stops the job does not stop the renewals.
//
//	shell ── guardian ── holder ── command ── what the command started
//	         └── the job's group ────┘
//
// # What it guarantees
//
//  1. The command is started only while the lock is held. After a loss, it and everything
//     that it started is dead before the lock's deadline, which is before anybody
//     else can acquire the lock. They get TERM, then KILL.
//  2. Guarantee 1 holds whichever process is killed. The guardian and the holder watch
//     each other: when one is gone, the other ends everything that the command started.
//     When a signal kills the command alone, the holder ends what it leaves behind,
//     and releases the lock only then.
//  3. Guarantee 1 also holds when the holder is stopped. The guardian compares the deadline
//     with its own clock, and kills everything when the holder does not extend it.
//     When the guardian is stopped, by Ctrl-Z for example, the holder still
//     renews, and the job keeps the lock.
//  4. The terminal is the job's, as it is flock(1)'s: pagers, editors and sudo work
//     on any descriptor; Ctrl-C, Ctrl-Z, fg, bg and pipes work as they do
//     without pawl. When the command stops, the guardian stops with it. A job that
//     nobody can continue is not left stopped.
//  5. A signal sent to the guardian, to the holder, or to both, is forwarded once, to the command and to
//     those of its children that are in its process group. TERM, INT, HUP and QUIT are
//     followed by CONT, so that stopped ones receive them.
//
// # What it does not guarantee
//
// The guardian cannot know whether the command was sent a signal too: one that is sent to the job's
// group by its number, or to all processes of a service, reaches the command directly and once more.
// From the terminal it comes once.
//
// A command that exits by itself may leave processes behind; they run on, without
// the lock.
//
// When the guardian and the holder are both stopped or both killed in the same
// instant, nobody ends the command; Linux still kills the command itself when the
// holder dies, and not its children. A process of another user, as sudo starts it,
// cannot be signalled by an unprivileged pawl: see Caveat.
//
// Guarantees 1 and 2 rest on Linux: PR_SET_CHILD_SUBREAPER, which makes orphans of
// the command children of the holder, or of the guardian after it, and /proc, which
// shows them. Elsewhere the descendants are those that ps(1) shows at the time: a
// process whose parent has died before is not found.
//
// # Failures
//
//	*StartError   the command could not be started
//	*EndedError   the command was ended because the lock was lost or about to be,
//	              or because the guardian was gone; the cause says which
//	*Interrupted  a signal came before the command was started
package supervise
