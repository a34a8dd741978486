package etcd

// Cause is why a key changed.
type Cause int

// The causes: a client's request, a client's revocation of a lease, a lease's
// expiry, and a test that called a method of Cluster.
const (
	ByClient Cause = iota
	ByRevoke
	ByExpiry
	ByOperator
)

// String is a word for the cause.
func (c Cause) String() string {
	return [...]string{"client", "revoke", "expiry", "operator"}[c]
}
