package observe

// MemberSwitched reports that a member failed, or was slow. The other members are then tried first,
// until it serves again, or for about five seconds after its last failure.
type MemberSwitched struct {
	From string // its endpoint
	Err  error
}

// MemberServes reports that a member that was avoided has served again.
type MemberServes struct {
	Member string // its endpoint
}

// WriteFenced reports that a transaction of kv was refused, and nothing of it applied, because one
// of its guards' locks was not held.
type WriteFenced struct {
	Err error // matches kv.ErrFenced, and names the key
}
