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
	// TokenTTL is how long an authentication token lasts since its last use,
	// in whole seconds; 0: 300 s.
	TokenTTL time.Duration
	// QuotaBytes bounds the database, and raises NOSPACE when it is full; 0: 2 GiB.
	QuotaBytes int64
	// MaxTxnOps bounds the operations of a transaction; 0: 128.
	MaxTxnOps int
	// Heartbeat and ElectionTicks set the leader's beat, and how many of them make an
	// election timeout, at least 5; 0 and 0: 40 ms and 5, with another beat 10. A server needs
	// up to one election timeout to get ready; its shortest lease lasts one and
	// a half of them, rounded up to seconds. In production the beat is 100 ms,
	// which makes these 1 s and 2 s.
	Heartbeat     time.Duration
	ElectionTicks int
	// LogLevel is from where on the server logs to stderr: "debug", "info",
	// "warn" or "error"; "": it logs nothing.
	LogLevel string
}
