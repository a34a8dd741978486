package watch

// Options say what is watched. The zero Options watch one key, from now on, without values.
type Options struct {
	Prefix bool  // all keys that begin with the key; an empty one: all keys
	From   int64 // the first revision; 0: the one after the cluster's current revision when the sequence begins
	Values bool  // yield the values that are put
}

// An Event is a change of one key; or, where Gap is set, that changes are missing.
type Event struct {
	Key     string
	Value   []byte // what was put; nil without Options.Values, and for a deletion
	Deleted bool   // the key was deleted, by a request or with its lease

	ModRevision    int64 // of the change
	CreateRevision int64 // of the key; 0: it was deleted

	// Gap, where it is above 0, says that events up to this revision were compacted away before they
	// could be yielded: read the keys again. Those that follow are of later revisions. The other fields are not set.
	Gap int64
}
