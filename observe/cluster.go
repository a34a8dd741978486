package observe

// MemberSwitched: a member failed, or was slow, and from now on the others are
// tried first, until it serves again, or for about five seconds after it failed
// last.
type MemberSwitched struct {
	From string // its endpoint
	Err  error
}

// MemberServes: a member that was switched away from has served again.
type MemberServes struct {
	Member string // its endpoint
}

// WriteFenced: a transaction of kv was refused, and nothing of it applied, because
// one of its guards' locks was not held.
type WriteFenced struct {
	Err error // matches kv.ErrFenced, and names the key
}
