package queue

// etcd goes through the keys that a range once had, too, until they are compacted, and
// most of them are a session's own where it takes one name again and again. Of those it
// knows that they are gone for good. So an acquisition that is the session's only one on
// the name reads around them: what its lease put there can be nothing but its own key.

// isAlone reports whether the session has no key in the queue but the own one, and had
// none since the acquisition began. In etcd's layout others' names may lie among the
// session's keys. A shared one, which asks for those in its way alone, is never alone,
// nor is a set, nor one of a semaphore.
func (a *Acquisition) isAlone() bool {
	return !a.queue.EtcdLayout && !a.queue.Shared && a.permit == nil && !a.isSet() && a.s.Alone(a.n, a.queue.Prefix)
}
