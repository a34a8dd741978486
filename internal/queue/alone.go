package queue

// etcd walks over the deleted keys of a range too until they are compacted. If a session takes
// one name again and again, most of those keys are its own, and the session knows that they are
// gone for good. So an acquisition that is its session's only one on the name leaves the range
// of the session's keys out of its reads: nothing but its own key can be in that range.

// isAlone reports whether its own key is the session's only key in the queue, and has been
// since the acquisition began. It is false unless the acquisition is an exclusive one of one name in
// pawl's layout: in etcd's layout the keys of other names may lie among the session's keys, and a
// shared acquisition reads only the keys in its way.
func (a *Acquisition) isAlone() bool {
	ordinary := !a.queue.EtcdLayout && !a.queue.Shared && a.permit == nil && !a.isSet()
	return ordinary && a.s.Alone(a.n, a.queue.Prefix)
}
