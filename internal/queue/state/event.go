package state

// An Event is something that happened to an acquisition. Its methods are in the file
// of what it concerns.
type Event interface {
	apply(a *Acquisition) Effects
}

// Effects are what is to be done, outside, after an event. The zero value is nothing.
type Effects struct {
	End    End   // it ended so: notify, and do at the server what End asks for
	Held   bool  // of End: it was held, so that its end is a loss unless it was given back
	At     int64 // of KeyOverwritten: the foreign modification revision
	Wake   bool  // wake the goroutine that acquires
	Delay  bool  // wait for the delay that the caller asked for, then go on
	Read   bool  // read the own key in the background: its value shows whose change it is
	Remove bool  // delete the own key in the background, again and again

	WatchOwn bool  // watch the own key at Own from revision From on
	Own      int   // of WatchOwn, and of an End by a key's deletion or overwriting: the place of the own key, or All
	Rest     bool  // of such an End: the other own keys stay until it is given back, or for one TTL (rule ML6)
	Follow   Key   // watch this predecessor's deletion from revision From on
	Unfollow bool  // cancel the watch of the predecessor, or of the slots, if there is one, and first
	From     int64 // of WatchOwn, Follow and FollowSlots

	FollowSlots bool // watch the slots' deletions from revision From on
	Unwatch     bool // cancel the watch of the own key, if there is one: another key is the own one now

	Handoff bool    // the next deletion carries a handoff
	Verdict Verdict // what a release, or a rewrite, does next
}

// Apply takes ev in and returns what is to be done about it.
func (a *Acquisition) Apply(ev Event) Effects { return ev.apply(a) }
