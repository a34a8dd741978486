package cluster

import (
	"strings"

	"google.golang.org/grpc/codes"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/etcdapi"
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
var rules = map[said]rule{
	// v3rpc/interceptor.go checks it before the handler is called. A follower that waits for an
	// election while a lease is renewed or shown answers so too, and those requests write nothing.
	saidBy(rpctypes.ErrGRPCNoLeader):            {NotApplied, elsewhere},
	saidBy(etcdapi.ErrNotSupportedForLearner):   {NotApplied, elsewhere},
	saidBy(etcdapi.ErrNotSupportedForLearner35): {NotApplied, elsewhere},
	saidBy(etcdapi.ErrNotCapable):               {NotApplied, elsewhere},
	saidBy(etcdapi.ErrNotCapable35):             {NotApplied, elsewhere},
	saidBy(etcdapi.ErrInvalidClientAPIVersion):  {NotApplied, stop},

	// v3_server.go, processInternalRaftRequestOnce, before the proposal.
	saidBy(rpctypes.ErrGRPCRequestTooManyRequests): {NotApplied, elsewhere},
	// It arrives in this form, because the server maps it to an error without a gRPC status
	// (v3rpc/util.go).
	{codes.Unknown, saidBy(rpctypes.ErrGRPCRequestTooManyRequests).text}: {NotApplied, elsewhere},
	// Raft's refusal, before it took the entry, while leadership is being transferred or too much is
	// uncommitted. etcd gives it no specific code.
	{codes.Unknown, "raft proposal dropped"}: {NotApplied, elsewhere},
	saidBy(rpctypes.ErrGRPCRequestTooLarge):  {NotApplied, stop},

	// auth/store.go AuthInfoFromCtx, before the proposal; and isOpPermitted, which the applier calls
	// for the whole request (apply/auth.go) before it applies any of it. The same for reads.
	saidBy(rpctypes.ErrGRPCInvalidAuthToken): {NotApplied, reauth},
	saidBy(rpctypes.ErrGRPCUserEmpty):        {NotApplied, reauth},
	saidBy(rpctypes.ErrGRPCAuthOldRevision):  {NotApplied, reauth},
	saidBy(rpctypes.ErrGRPCPermissionDenied): {NotApplied, stop},

	// auth/store.go, CheckPassword, before the proposal of Authenticate.
	saidBy(rpctypes.ErrGRPCAuthFailed):     {NotApplied, stop},
	saidBy(rpctypes.ErrGRPCAuthNotEnabled): {NotApplied, stop},

	// v3rpc/key.go validates the request before it reaches the server.
	saidBy(rpctypes.ErrGRPCEmptyKey):      {NotApplied, stop},
	saidBy(rpctypes.ErrGRPCValueProvided): {NotApplied, stop},
	saidBy(rpctypes.ErrGRPCLeaseProvided): {NotApplied, stop},
	saidBy(rpctypes.ErrGRPCTooManyOps):    {NotApplied, stop},
	saidBy(rpctypes.ErrGRPCDuplicateKey):  {NotApplied, stop},
	saidBy(etcdapi.ErrInvalidSortOption):  {NotApplied, stop},

	// txn/txn.go checks puts and ranges of the whole transaction before it executes any of it.
	saidBy(rpctypes.ErrGRPCKeyNotFound):   {NotApplied, stop},
	saidBy(rpctypes.ErrGRPCCompacted):     {NotApplied, stop},
	saidBy(rpctypes.ErrGRPCFutureRev):     {NotApplied, stop},
	saidBy(rpctypes.ErrGRPCLeaseNotFound): {NotApplied, stop},

	// lease/lessor.go Grant, before the lease is recorded.
	saidBy(rpctypes.ErrGRPCLeaseExist):       {NotApplied, stop},
	saidBy(rpctypes.ErrGRPCLeaseTTLTooLarge): {NotApplied, stop},

	// apply/quota.go applies and then reports it; v3rpc/quota.go reports it before. The two are
	// indistinguishable. The alarm is the cluster's, so every member answers alike.
	saidBy(rpctypes.ErrGRPCNoSpace): {Answered, stop},

	// apply/corrupt.go refuses to apply on this member. What the others do is not known.
	saidBy(rpctypes.ErrGRPCCorrupt): {Unknown, stop},
}

// saidBy returns the status that err is, or wraps. It returns the zero said if there is none.
func saidBy(err error) said {
	s := statusOf(err)
	return said{s.Code(), s.Message()}
}

// classify returns what err proves, provided that it came over a stream, and what to do after it. What
// to do is right for any error.
func classify(err error) (Outcome, next) {
	s := saidBy(err)
	if r, ok := rules[s]; ok {
		return r.outcome, r.next
	}
	switch {
	case s.code == codes.Unimplemented:
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
)

// isLearner means that the member is a learner, which serves only some requests.
func isLearner(err error) bool {
	s := saidBy(err)
	return s == saidBy(etcdapi.ErrNotSupportedForLearner) || s == saidBy(etcdapi.ErrNotSupportedForLearner35)
}

// is returns a function that reports whether err is, or wraps, the status want.
func is(want error) func(err error) bool {
	w := saidBy(want)
	return func(err error) bool { return saidBy(err) == w }
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
func isOverLimit(s said) bool {
	return s.code == codes.ResourceExhausted && strings.HasPrefix(s.text, "grpc: received message larger than max")
}

// IsTooLarge reports whether the request is larger than the server accepts. It does not prove that
// nothing was applied, because an answer over a limit that the user has set for this side looks the
// same.
func IsTooLarge(err error) bool { return isOverLimit(saidBy(err)) || isTooLarge(err) }

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
