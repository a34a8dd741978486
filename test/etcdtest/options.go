package etcdtest

import (
	"time"
)

// Options change what StartWith starts. The zero value is a plain server with
// etcd's defaults that does not wait for its disk.
type Options struct {
	// Fsync makes the server wait for its disk, as it does in production.
	Fsync bool
	// TLS serves https, with certificates of a throw-away authority;
	// Server.TLS trusts them. With ClientCerts the server also asks for a
	// certificate of that authority, and takes its common name for the user.
	TLS         bool
	ClientCerts bool
	// TokenTTL is how long an authentication token lasts since its last use, in whole seconds. 0
	// means 300 s.
	TokenTTL time.Duration
	// QuotaBytes bounds the database, and raises NOSPACE when it is full. 0 means 2 GiB.
	QuotaBytes int64
	// MaxTxnOps bounds the operations of a transaction. 0 means 128.
	MaxTxnOps int
	// Heartbeat sets the leader's heartbeat, and ElectionTicks how many of them make an election
	// timeout, at least 5. If both are 0, they are 40 ms and 5. With another heartbeat,
	// ElectionTicks is 10. A server needs up to one election timeout to get ready; its shortest
	// lease lasts one and a half of them, rounded up to seconds. In production the heartbeat is 100
	// ms, which makes these 1 s and 2 s.
	Heartbeat     time.Duration
	ElectionTicks int
	// LogLevel is the lowest level that the server logs to stderr: "debug", "info", "warn" or
	// "error". If it is "", the server logs nothing.
	LogLevel string
}
