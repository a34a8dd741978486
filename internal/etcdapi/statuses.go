package etcdapi

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Statuses that not every version of rpctypes has under the same name and with the same code. Which of
// them a server sends depends on the server's version, and not on the module's.
var (
	ErrInvalidClientAPIVersion = status.Error(codes.InvalidArgument, "etcdserver: invalid client api version")
	ErrInvalidSortOption       = status.Error(codes.InvalidArgument, "etcdserver: invalid sort option")
	ErrClusterIDMismatch       = status.Error(codes.FailedPrecondition, "etcdserver: cluster ID mismatch")

	// Servers since 3.6 send the first of these, and those before the second.
	ErrNotCapable               = status.Error(codes.FailedPrecondition, notCapable)
	ErrNotCapable35             = status.Error(codes.Unavailable, notCapable)
	ErrNotSupportedForLearner   = status.Error(codes.FailedPrecondition, notForLearner)
	ErrNotSupportedForLearner35 = status.Error(codes.Unavailable, notForLearner)
)

const (
	notCapable    = "etcdserver: not capable"
	notForLearner = "etcdserver: rpc not supported for learner"
)
