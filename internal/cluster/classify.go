package cluster

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// next says what to do after a failed try.
type next int

const (
	elsewhere next = iota // another member, or this one later, may do better
	stop                  // every member would answer the same
	reauth                // a new token is needed
)

// said identifies one of etcd's statuses, and rule says what it proves.
type (
	said struct {
		code codes.Code
		text string
	}
	rule struct {
		outcome Outcome
		next    next
	}
)

// rules holds every status of etcd's server that proves more than "unknown, try elsewhere". Each was
// verified in the server's source (v3.7.3), which is named here by file.
var rules = ruleTable(
	// v3rpc/interceptor.go checks it before the handler is called. A follower that waits for an
	// election while a lease is renewed or shown answers so too, and those requests write nothing.
	statusRule{rpctypes.ErrGRPCNoLeader, NotApplied, elsewhere},
	statusRule{rpctypes.ErrGRPCNotSupportedForLearner, NotApplied, elsewhere},
	statusRule{rpctypes.ErrGRPCNotCapable, NotApplied, elsewhere},
	statusRule{rpctypes.ErrGRPCInvalidClientAPIVersion, NotApplied, stop},

	// v3_server.go, processInternalRaftRequestOnce, before the proposal.
	statusRule{rpctypes.ErrGRPCRequestTooManyRequests, NotApplied, elsewhere},
	// It arrives in this form, because the server maps it to an error without a gRPC status
	// (v3rpc/util.go).
	statusRule{status.Error(codes.Unknown, status.Convert(rpctypes.ErrGRPCRequestTooManyRequests).Message()), NotApplied, elsewhere},
	// Raft's refusal, before it took the entry, while leadership is being transferred or too much is
	// uncommitted. etcd gives it no specific code.
	statusRule{status.Error(codes.Unknown, "raft proposal dropped"), NotApplied, elsewhere},
	statusRule{rpctypes.ErrGRPCRequestTooLarge, NotApplied, stop},

	// auth/store.go AuthInfoFromCtx, before the proposal; and isOpPermitted, which the applier calls
	// for the whole request (apply/auth.go) before it applies any of it. The same for reads.
	statusRule{rpctypes.ErrGRPCInvalidAuthToken, NotApplied, reauth},
	statusRule{rpctypes.ErrGRPCUserEmpty, NotApplied, reauth},
	statusRule{rpctypes.ErrGRPCAuthOldRevision, NotApplied, reauth},
	statusRule{rpctypes.ErrGRPCPermissionDenied, NotApplied, stop},

	// auth/store.go, CheckPassword, before the proposal of Authenticate.
	statusRule{rpctypes.ErrGRPCAuthFailed, NotApplied, stop},
	statusRule{rpctypes.ErrGRPCAuthNotEnabled, NotApplied, stop},

	// v3rpc/key.go validates the request before it reaches the server.
	statusRule{rpctypes.ErrGRPCEmptyKey, NotApplied, stop},
	statusRule{rpctypes.ErrGRPCValueProvided, NotApplied, stop},
	statusRule{rpctypes.ErrGRPCLeaseProvided, NotApplied, stop},
	statusRule{rpctypes.ErrGRPCTooManyOps, NotApplied, stop},
	statusRule{rpctypes.ErrGRPCDuplicateKey, NotApplied, stop},
	statusRule{rpctypes.ErrGRPCInvalidSortOption, NotApplied, stop},

	// txn/txn.go checks puts and ranges of the whole transaction before it executes any of it.
	statusRule{rpctypes.ErrGRPCKeyNotFound, NotApplied, stop},
	statusRule{rpctypes.ErrGRPCCompacted, NotApplied, stop},
	statusRule{rpctypes.ErrGRPCFutureRev, NotApplied, stop},
	statusRule{rpctypes.ErrGRPCLeaseNotFound, NotApplied, stop},

	// lease/lessor.go Grant, before the lease is recorded.
	statusRule{rpctypes.ErrGRPCLeaseExist, NotApplied, stop},
	statusRule{rpctypes.ErrGRPCLeaseTTLTooLarge, NotApplied, stop},

	// apply/quota.go applies and then reports it; v3rpc/quota.go reports it before. The two are
	// indistinguishable. The alarm is the cluster's, so every member answers alike.
	statusRule{rpctypes.ErrGRPCNoSpace, Answered, stop},

	// apply/corrupt.go refuses to apply on this member. What the others do is not known.
	statusRule{rpctypes.ErrGRPCCorrupt, Unknown, stop},
)

type statusRule struct {
	err     error
	outcome Outcome
	next    next
}

func ruleTable(all ...statusRule) map[said]rule {
	t := make(map[said]rule, len(all))
	for _, r := range all {
		s := status.Convert(r.err)
		t[said{s.Code(), s.Message()}] = rule{r.outcome, r.next}
	}
	return t
}

// classify returns what err proves, provided that it came over a stream, and what to do after it. What
// to do is right for any error.
func classify(err error) (Outcome, next) {
	s := statusOf(err)
	if s == nil {
		return Unknown, elsewhere
	}
	if r, ok := rules[said{s.Code(), s.Message()}]; ok {
		return r.outcome, r.next
	}
	switch {
	case s.Code() == codes.Unimplemented:
		// gRPC's server returns it for a method that nobody has registered.
		return NotApplied, elsewhere
	case isOverLimit(s):
		// gRPC's server says it before it calls the handler, or this side says it of a complete answer.
		return Answered, elsewhere
	}
	return Unknown, elsewhere
}

// Each reports whether an error is, or wraps, one status.
var (
	// IsNoSpace means that the cluster's space quota is used up. The request may have been applied.
	IsNoSpace = is(rpctypes.ErrGRPCNoSpace)
	// IsPermissionDenied means that the user's roles do not allow the request.
	IsPermissionDenied = is(rpctypes.ErrGRPCPermissionDenied)
	// IsLeaseNotFound means that a lease that the request names is gone.
	IsLeaseNotFound = is(rpctypes.ErrGRPCLeaseNotFound)
	// IsLeaseExists means that the lease ID of a grant is taken.
	IsLeaseExists = is(rpctypes.ErrGRPCLeaseExist)
	// IsCompacted means that the requested revision is compacted.
	IsCompacted = is(rpctypes.ErrGRPCCompacted)
	// IsTooManyOps means that the transaction has more operations than the server's max-txn-ops.
	IsTooManyOps = is(rpctypes.ErrGRPCTooManyOps)

	isTooLarge       = is(rpctypes.ErrGRPCRequestTooLarge)
	isUserEmpty      = is(rpctypes.ErrGRPCUserEmpty)
	isAuthNotEnabled = is(rpctypes.ErrGRPCAuthNotEnabled)
	isLearner        = is(rpctypes.ErrGRPCNotSupportedForLearner)
)

// is returns a function that reports whether err is, or wraps, the status want.
func is(want error) func(err error) bool {
	w := status.Convert(want)
	return func(err error) bool {
		if err == nil {
			return false
		}
		s := statusOf(err)
		return s != nil && s.Code() == w.Code() && s.Message() == w.Message()
	}
}

// IsCode reports whether err is, or wraps, a gRPC status with this code.
func IsCode(err error, code codes.Code) bool {
	s := statusOf(err)
	return s != nil && s.Code() == code
}

// IsFinal reports whether every other member would answer with err too, so that sending the request to
// one is pointless. A refused token is final too, although a new token may help.
func IsFinal(err error) bool {
	_, n := classify(err)
	return n != elsewhere
}

// IsNoLeader reports whether a member answered that it knows no leader. err may join the errors of
// several members.
func IsNoLeader(err error) bool {
	return err != nil && strings.Contains(err.Error(), rpctypes.ErrNoLeader.Error())
}

// isOverLimit reports whether gRPC's server refused a request over its limit, which is 512 KiB above
// etcd's --max-request-bytes.
func isOverLimit(s *status.Status) bool {
	return s.Code() == codes.ResourceExhausted && strings.HasPrefix(s.Message(), "grpc: received message larger than max")
}

// IsTooLarge reports whether the request is larger than the server accepts. It does not prove that
// nothing was applied, because an answer over a limit that the user has set for this side looks the
// same.
func IsTooLarge(err error) bool {
	s := statusOf(err)
	return s != nil && isOverLimit(s) || isTooLarge(err)
}

// IsTokenRefusal reports whether the request's auth token, or its absence, was refused, so that a
// new one may help.
func IsTokenRefusal(err error) bool {
	_, n := classify(err)
	return n == reauth
}

// IsTokenRefusalText is IsTokenRefusal for the cancel reason of a watch, which etcd sends as text,
// with or without gRPC's "rpc error: code = … desc =" before it.
func IsTokenRefusalText(reason string) bool {
	for s, r := range rules {
		if r.next == reauth && strings.HasSuffix(reason, s.text) {
			return true
		}
	}
	return false
}
