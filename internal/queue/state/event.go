package state

// An Event is something that happened to an acquisition. Each event's methods are in the file
// of its subject.
type Event interface {
	apply(a *Machine) Effects
}

// Effects are what package queue does after an event. The zero value is nothing.
type Effects struct {
	End    End   // it ended: notify of the end, and clean up at the server as End requires
	Held   bool  // of End: it was held, so that the end is a loss unless it was released
	At     int64 // of KeyOverwritten: the foreign modification revision
	Wake   bool  // wake the goroutine that acquires
	Read   bool  // read its own key in the background: the value shows who changed it
	Remove bool  // delete its own key in the background, until it is gone

	WatchOwn bool  // watch its own key at index Own from revision From on
	Own      int   // of WatchOwn, and of an End by a deleted or overwritten key: the index of its own key, or All
	Rest     bool  // of such an End: its other own keys stay until it is released, or for one TTL (rule ML6)
	Follow   Key   // watch this predecessor's deletion from revision From on
	Unfollow bool  // first cancel the watch of the predecessor, or of the slots, if there is one
	From     int64 // of WatchOwn, Follow and FollowSlots

	FollowSlots bool // watch the slots' deletions from revision From on
	Unwatch     bool // cancel the watch of its own key, if there is one: another key has become its own

	Handoff bool    // the next deletion carries a handoff
	Exact   bool    // the next deletion also compares the modification revision
	Verdict Verdict // what a release, or a rewrite, does next
}

// Apply changes the state by ev and returns the effects.
func (a *Machine) Apply(ev Event) Effects { return ev.apply(a) }
