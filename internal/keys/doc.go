// Package keys spells what stands in etcd: the names of keys and what their values
// say. The writer and the reader of each form stand side by side. The package is
// pure and knows nothing of requests.
//
// Behind Config.Namespace, "ns" here, stand
//
//	ns<escaped name>/<lease>-<n>       a queue key: acquisition n of a lease ([Queue], [QueueKey])
//	ns<name>/<lease>                   a queue key as etcd's own clients write it ([ParsePeerKey])
//	ns//pawl/<lease>                   a session key, whose value says whose it is ([SessionKey])
//	ns//pawl/<lease>/<n>               a cancel key ([CancelKey])
//	ns//pawl/<lease>/<n>/broken        the mark of an operator's eviction ([EvictionKey])
//	ns//pawl/once/<escaped name>       the record of the last run of a name, a time ([OnceKey])
//
// where <lease> is a lease ID in hexadecimal and <n> a sequence number in decimal,
// both positive and without leading zeros. The value of a lock's queue key begins
// with a label ([Label]) and may end with a handoff ([Handoff]); the value of a
// candidate's queue key is the caller's.
//
// # What it guarantees
//
//  1. Escaping is injective, and no name's keys lie among the keys of another name
//     or of the sessions. In etcd's layout names nest as they do there, but none
//     contains the sessions' keys.
//  2. A queue key tells its lease and its sequence number by its name alone, and a
//     name that is not exactly in that form is foreign.
//  3. What a writer here wrote its reader reads back, and a reader refuses what no
//     writer here can have written: it never panics and never guesses.
//
// # More forms
//
// Queue keys of further kinds (shared holders, a semaphore's turnstile and slots)
// begin with a character that is no hexadecimal digit, so that a reader that does
// not know them takes them for foreign keys and waits for them. They join as
// further forms of QueueKey, whose zero form stays the exclusive one.
package keys
