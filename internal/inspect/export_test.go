package inspect

// What the tests outside of the package need of its inside: they use lock and elect,
// which import this package.
const (
	Page      = pageSize
	SomeLabel = label
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
