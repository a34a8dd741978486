package inspect

// This file exports internals for the tests outside of the package, which use lock and elect;
// those import this package.
const (
	Page      = pageSize
	SomeLabel = label
	MaxOthers = maxOthers
)

// Deaf cancels the first watch of f; Hear makes it again, from where it was.
func (f *Follower) Deaf() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tracks[0].tail.Close()
}

func (f *Follower) Hear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch(f.tracks[0])
}
