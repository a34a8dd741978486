// Package keys defines what is stored in etcd: the names of keys and the form of their values.
// The writer and the reader of each form are side by side. The package is pure and does no I/O.
//
// After Config.Namespace, "ns" here, the keys are
//
//	ns<escaped name>/<lease>-<n>       a queue key: acquisition n of a lease ([Queue], [QueueKey])
//	ns<escaped name>/+<lease>-<n>      one of a shared lock
//	ns<name>/<lease>                   a queue key as etcd's own clients write it ([ParsePeerKey])
//	ns//pawl/<lease>                   a session key, whose value says whose it is ([SessionKey])
//	ns//pawl/<lease>/<n>               a cancel key ([CancelKey])
//	ns//pawl/<lease>/<n>/owner         who a candidate is, where it is not its session's owner ([OwnerKey])
//	ns//pawl/<lease>/<n>/broken        the mark of an operator's eviction ([EvictionKey])
//	ns//pawl/sem/<escaped name>/q<lease>-<n>   a queue key that waits at a semaphore's turnstile
//	ns//pawl/sem/<escaped name>/s<i>.<limit>.<lease>-<n>  one that holds slot i of a semaphore with this many slots
//	ns//pawl/once/<escaped name>       the record of the last run of a name ([OnceKey], [Run])
//	ns//pawl/shard/<escaped name>/…    the locks of a name's shards, and who works on them ([Shards])
//
// where <lease> is a lease ID in hexadecimal and <n> a sequence number in decimal,
// both positive and without leading zeros. The value of a lock's queue key is the time
// at which it was put ([Plain]), or also names its owner ([Label]), and may end with a
// handoff ([Handoff]); the value of a candidate's queue key is the caller's.
//
// # What it guarantees
//
//  1. Escaping is injective, and no name's keys lie among the keys of another name
//     or of the sessions, nor a semaphore's among those of a lock of the same name. In
//     etcd's layout names nest as they do there, but none contains the sessions' keys.
//  2. The name of a queue key alone shows its lease and its sequence number, and a
//     name that is not exactly in that form is foreign.
//  3. A reader reads what the writer here wrote, and refuses what no
//     writer here can have written: it never panics and never guesses.
//
// # Forms
//
// A queue key of any form but the exclusive one begins with a character that is no
// hexadecimal digit, so that a reader that does not know the form takes the key for
// a foreign one and waits for it. The keys of each form lie together, in a range.
package keys
