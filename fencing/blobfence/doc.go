// Package blobfence guards objects of an object store with fencing tokens, by the store's
// conditional writes.
//
// Each object has two registers in its metadata: the highest token, and the highest exclusive one.
// A Fence reads the object's token and version, refuses a lower token, and writes on the condition
// that the object still has that version; if another write came between, it reads again. A Store is
// anything that supports this; Dir is one in a local directory, and the module
// fencing/blobfence/s3blob has one for S3.
//
//	fence := blobfence.Fence{Store: store}
//	old, err := fence.Read(ctx, "state.json", held.Token())     // registers the token
//	…
//	err = fence.Write(ctx, "state.json", held.Token(), new)
//
// # Guarantees
//
//  1. After a token was admitted for an object, by Read, Write or Delete, every smaller one is
//     refused with a *fencing.StaleError, and writes nothing. That includes a write of an older
//     holder that was already on its way.
//  2. Read and ReadShared register the token before they return, even if there is no object.
//     ReadShared admits the tokens of readers that hold a lock together in any order, and refuses
//     those below an exclusive one; Read, Write and Delete refuse an exclusive token below a
//     reader's.
//  3. A write is applied at most once, whatever is lost on the way; one whose outcome cannot be
//     known ends in ErrUnknown.
//
// They rest on the Store's: each successful Put gives the object a version that it never had
// before, and compares and writes in one step.
//
// # What it does not do
//
// Writes with the same token are applied one after the other, and the last one wins: a holder that
// reads and writes an object from several goroutines has to order them itself. A write or a
// deletion that bypasses this package loses the token. So do rules of the store that expire
// objects.
//
// A new holder's first Read writes the object again, with its token and the same body. A Read of a
// missing object, and Delete, leave an empty placeholder, which others who read the store directly
// see as an empty object.
//
// # Failures
//
//	*fencing.StaleError    a greater token was there: the lock is lost, nothing was written
//	fencing.ErrNoToken     token zero or negative
//	fencing.ErrNoResource  name empty, or longer than 1 KiB
//	ErrNotFound            (Read) there is no such object; the token is registered
//	ErrUnknown             the write may have been applied, or may yet be
//	ErrContended           others wrote each time between the look and the write
package blobfence
