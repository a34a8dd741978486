// Package supervise runs a command that may work only while something is held, a lock or a term of
// leadership.
//
// Three processes take part. The guardian is the one that the user started. It starts this program
// again as the holder, which speaks to etcd and starts the command. The guardian and the command
// are in one process group, so that the terminal and the shell treat them as one job. The holder is
// in a separate group, so that what stops the job does not stop the renewals.
//
//	shell ── guardian ── holder ── command ── what the command started
//	         └── the job's group ────┘
//
// # What it guarantees
//
//  1. The command is started only while the lock is held. After a loss, it and everything that it
//     started are dead before the lock's deadline, which is before anybody else can acquire the
//     lock. They get TERM, then KILL.
//  2. Guarantee 1 holds whichever process is killed. The guardian and the holder watch each other.
//     When one is gone, the other ends everything that the command started. When a signal kills
//     only the command, the holder ends what it leaves behind, and only then releases the lock.
//  3. Guarantee 1 also holds when the holder is stopped. The guardian compares the deadline with
//     its clock, and kills everything when the holder does not extend it. When the guardian is
//     stopped, by Ctrl-Z for example, the holder still renews, and the job keeps the lock.
//  4. The terminal belongs to the job, as with flock(1). Pagers, editors and sudo work on any
//     descriptor; Ctrl-C, Ctrl-Z, fg, bg and pipes work as they do without pawl. When the command
//     stops, the guardian stops with it. A job that nobody can continue is not left stopped.
//  5. A signal sent to the guardian, to the holder, or to both, is forwarded once, to the command and to
//     those of its children that are in its process group. TERM, INT, HUP and QUIT are
//     followed by CONT, so that stopped ones receive them.
//  6. After a holder that was killed, Guard says what it has left only if nothing that it started
//     is left (Linux).
//
// # What it does not guarantee
//
// The guardian cannot know whether another process sent a signal to the command too. One that is sent
// to the job's group by its number, or to all processes of a service, reaches the command directly and
// once more. From the terminal, which the kernel names as the sender, it comes once. Where that is not
// known (sender_other.go), INT, QUIT and WINCH count as the terminal's while the job is in the
// foreground.
//
// A command that exits by itself may leave processes behind, which run on without the lock.
//
// When the guardian and the holder are both stopped or both killed in the same instant, nobody ends
// the command. Linux still kills the command when the holder dies, but not its children. An
// unprivileged pawl cannot signal a process of another user, as sudo starts it: see Caveat.
//
// Guarantees 1 and 2 rest on Linux: PR_SET_CHILD_SUBREAPER, which makes orphans of the command
// children of the holder, or of the guardian after it, and /proc, which shows them. Elsewhere the
// descendants are those that ps(1) shows at the time. A process whose parent has died before is not
// found.
//
// # Failures
//
//	*StartError   the command could not be started
//	*EndedError   the command was ended because the lock was lost or about to be,
//	              or because the guardian was gone; the cause says which
//	*Interrupted  a signal came before the command was started
package supervise
