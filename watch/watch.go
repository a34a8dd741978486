package watch

// Options say what is watched. The zero Options watch one key, starting now, without values.
type Options struct {
	Prefix bool  // watch all keys that begin with the key, or all keys if it is empty
	From   int64 // the first revision; 0 means the one after the cluster's current revision when the sequence begins
	Values bool  // yield the values that are put
}

// An Event is a change of one key, or, if Gap is set, says that changes are missing.
type Event struct {
	Key     string
	Value   []byte // what was put; nil without Options.Values, and for a deletion
	Deleted bool   // the key was deleted, by a request or with its lease

	ModRevision    int64 // of the change
	CreateRevision int64 // of the key; 0 if it was deleted

	// Gap, if above 0, says that events up to this revision were compacted away before they could be
	// yielded, so that the keys have to be read again. The events that follow are of later revisions.
	// The other fields are not set.
	Gap int64
}
