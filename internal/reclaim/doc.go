// Package reclaim frees what a killed process held, at once. A session leaves a file, locked for as long
// as its process has the memory in which it could believe that it holds something. Whoever gets that lock
// has proof that nobody believes it any more, and revokes the lease (rules RC1 to RC6).
//
// # The file
//
// It lies in a directory of the same user with mode 0700, on tmpfs, ext4, xfs or btrfs, and its name is the lease
// in hexadecimal digits, "-", and the modification revision of the session key. A name that begins with a
// dot is one that is not published yet. It has one JSON object of at most 16 KiB, whose fields are all
// there:
//
//	pawl       1, the version of this format; other fields, and other versions, are refused
//	cluster    the ID of etcd's cluster, in hexadecimal digits
//	lease      the ID of the lease, in hexadecimal digits
//	key        the session key, in base64
//	create     the session key's create revision
//	mod        the session key's modification revision, as the session wrote it
//	lockDelay  the session's lock-delay, in nanoseconds
//	owner      who the session belongs to, for display
//	boot       the boot ID of the kernel
//	uid        the user
//	device     the number of the file system's device
//	inode      the number of the file
//	name       the file's name
//
// # The lock
//
// It is a lock of flock(2), which belongs to an open file description. The description is kept by a
// mapping of the file alone: its descriptor is closed. So no close, not even a stray one, frees it. It goes
// when the last process that has the memory is dead, or has begun another program. A process that is
// stopped, that waits uninterruptibly or whose memory is being dumped keeps it, and a forked child does.
//
// # What it guarantees
//
//  1. A file that is published is whole and locked ([Dir.Publish], rule RC1).
//  2. A [Claim] is proof of death (RC2). Everything else is an error, and changes nothing.
//  3. The lease is revoked after the lock-delay, and never if another process has taken it over
//     ([Claim.Settle], RC3, RC4).
//  4. A file is removed before its lock is let go of (RC5).
//  5. A file system that does not answer holds up the goroutine that asks it. [Await], Sweep, Settle and Run
//     end with their contexts.
//
// # What it does not
//
// A lease that expires lets writes under way arrive first. A reclaim does not: only the storage's check of
// the token refuses those, or a lock-delay.
//
// It works on Linux. Elsewhere [Open] returns [ErrSystem].
package reclaim
