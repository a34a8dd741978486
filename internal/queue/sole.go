package queue

// etcd goes through the keys that a range once had, too, until they are
// compacted, and the most of them are a session's own where it takes one name
// again and again. Of those it knows that they are gone for good. So an attempt
// that is the session's only one on the line reads around them: what its lease
// put there can be nothing but its own key.

// isSole reports whether the session has no key on the line but the own one, and
// had none since the attempt began. In etcd's layout others' names may lie among
// the session's keys.
func (c *Claim) isSole() bool { return !c.line.EtcdLayout && c.s.Sole(c.n, c.line.Prefix) }
