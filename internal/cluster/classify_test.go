package cluster

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// verdicts has every status that etcd exports. The rules have the reasons.
var verdicts = map[string]struct {
	err     error
	outcome Outcome
	next    next
}{
	"ErrGRPCEmptyKey":                {rpctypes.ErrGRPCEmptyKey, NotApplied, stop},
	"ErrGRPCKeyNotFound":             {rpctypes.ErrGRPCKeyNotFound, NotApplied, stop},
	"ErrGRPCValueProvided":           {rpctypes.ErrGRPCValueProvided, NotApplied, stop},
	"ErrGRPCLeaseProvided":           {rpctypes.ErrGRPCLeaseProvided, NotApplied, stop},
	"ErrGRPCTooManyOps":              {rpctypes.ErrGRPCTooManyOps, NotApplied, stop},
	"ErrGRPCDuplicateKey":            {rpctypes.ErrGRPCDuplicateKey, NotApplied, stop},
	"ErrGRPCInvalidClientAPIVersion": {etcdapi.ErrInvalidClientAPIVersion, NotApplied, stop},
	"ErrGRPCInvalidSortOption":       {etcdapi.ErrInvalidSortOption, NotApplied, stop},
	"ErrGRPCCompacted":               {rpctypes.ErrGRPCCompacted, NotApplied, stop},
	"ErrGRPCFutureRev":               {rpctypes.ErrGRPCFutureRev, NotApplied, stop},
	"ErrGRPCNoSpace":                 {rpctypes.ErrGRPCNoSpace, Answered, stop},
	"ErrGRPCLeaseNotFound":           {rpctypes.ErrGRPCLeaseNotFound, NotApplied, stop},
	"ErrGRPCLeaseExist":              {rpctypes.ErrGRPCLeaseExist, NotApplied, stop},
	"ErrGRPCLeaseTTLTooLarge":        {rpctypes.ErrGRPCLeaseTTLTooLarge, NotApplied, stop},
	"ErrGRPCRequestTooLarge":         {rpctypes.ErrGRPCRequestTooLarge, NotApplied, stop},
	"ErrGRPCRequestTooManyRequests":  {rpctypes.ErrGRPCRequestTooManyRequests, NotApplied, elsewhere},
	"ErrGRPCAuthFailed":              {rpctypes.ErrGRPCAuthFailed, NotApplied, stop},
	"ErrGRPCAuthNotEnabled":          {rpctypes.ErrGRPCAuthNotEnabled, NotApplied, stop},
	"ErrGRPCUserEmpty":               {rpctypes.ErrGRPCUserEmpty, NotApplied, reauth},
	"ErrGRPCInvalidAuthToken":        {rpctypes.ErrGRPCInvalidAuthToken, NotApplied, reauth},
	"ErrGRPCAuthOldRevision":         {rpctypes.ErrGRPCAuthOldRevision, NotApplied, reauth},
	"ErrGRPCPermissionDenied":        {rpctypes.ErrGRPCPermissionDenied, NotApplied, stop},
	"ErrGRPCNoLeader":                {rpctypes.ErrGRPCNoLeader, NotApplied, elsewhere},
	"ErrGRPCNotCapable":              {etcdapi.ErrNotCapable, NotApplied, elsewhere},
	"not capable, by 3.5":            {etcdapi.ErrNotCapable35, NotApplied, elsewhere},
	"ErrGRPCNotSupportedForLearner":  {etcdapi.ErrNotSupportedForLearner, NotApplied, elsewhere},
	"a learner's, by 3.5":            {etcdapi.ErrNotSupportedForLearner35, NotApplied, elsewhere},
	"ErrGRPCCorrupt":                 {rpctypes.ErrGRPCCorrupt, Unknown, stop},

	// The proposal may be in the log.
	"ErrGRPCLeaderChanged":              {rpctypes.ErrGRPCLeaderChanged, Unknown, elsewhere},
	"ErrGRPCStopped":                    {rpctypes.ErrGRPCStopped, Unknown, elsewhere},
	"ErrGRPCTimeout":                    {rpctypes.ErrGRPCTimeout, Unknown, elsewhere},
	"ErrGRPCTimeoutDueToLeaderFail":     {rpctypes.ErrGRPCTimeoutDueToLeaderFail, Unknown, elsewhere},
	"ErrGRPCTimeoutDueToConnectionLost": {rpctypes.ErrGRPCTimeoutDueToConnectionLost, Unknown, elsewhere},
	"ErrGRPCTimeoutWaitAppliedIndex":    {rpctypes.ErrGRPCTimeoutWaitAppliedIndex, Unknown, elsewhere},
	"ErrGRPCCanceled":                   {rpctypes.ErrGRPCCanceled, Unknown, elsewhere},
	"ErrGRPCDeadlineExceeded":           {rpctypes.ErrGRPCDeadlineExceeded, Unknown, elsewhere},

	// No request of this package is answered so. Nothing is claimed about them.
	"ErrGRPCWatchCanceled":                 {rpctypes.ErrGRPCWatchCanceled, Unknown, elsewhere},
	"ErrGRPCMemberExist":                   {rpctypes.ErrGRPCMemberExist, Unknown, elsewhere},
	"ErrGRPCPeerURLExist":                  {rpctypes.ErrGRPCPeerURLExist, Unknown, elsewhere},
	"ErrGRPCMemberNotEnoughStarted":        {rpctypes.ErrGRPCMemberNotEnoughStarted, Unknown, elsewhere},
	"ErrGRPCMemberBadURLs":                 {rpctypes.ErrGRPCMemberBadURLs, Unknown, elsewhere},
	"ErrGRPCMemberNotFound":                {rpctypes.ErrGRPCMemberNotFound, Unknown, elsewhere},
	"ErrGRPCMemberNotLearner":              {rpctypes.ErrGRPCMemberNotLearner, Unknown, elsewhere},
	"ErrGRPCLearnerNotReady":               {rpctypes.ErrGRPCLearnerNotReady, Unknown, elsewhere},
	"ErrGRPCTooManyLearners":               {rpctypes.ErrGRPCTooManyLearners, Unknown, elsewhere},
	"ErrGRPCClusterIDMismatch":             {etcdapi.ErrClusterIDMismatch, Unknown, elsewhere},
	"ErrGRPCClusterIdMismatch":             {etcdapi.ErrClusterIDMismatch, Unknown, elsewhere},
	"ErrGRPCRootUserNotExist":              {rpctypes.ErrGRPCRootUserNotExist, Unknown, elsewhere},
	"ErrGRPCRootRoleNotExist":              {rpctypes.ErrGRPCRootRoleNotExist, Unknown, elsewhere},
	"ErrGRPCUserAlreadyExist":              {rpctypes.ErrGRPCUserAlreadyExist, Unknown, elsewhere},
	"ErrGRPCUserNotFound":                  {rpctypes.ErrGRPCUserNotFound, Unknown, elsewhere},
	"ErrGRPCRoleAlreadyExist":              {rpctypes.ErrGRPCRoleAlreadyExist, Unknown, elsewhere},
	"ErrGRPCRoleNotFound":                  {rpctypes.ErrGRPCRoleNotFound, Unknown, elsewhere},
	"ErrGRPCRoleEmpty":                     {rpctypes.ErrGRPCRoleEmpty, Unknown, elsewhere},
	"ErrGRPCPermissionNotGiven":            {rpctypes.ErrGRPCPermissionNotGiven, Unknown, elsewhere},
	"ErrGRPCRoleNotGranted":                {rpctypes.ErrGRPCRoleNotGranted, Unknown, elsewhere},
	"ErrGRPCPermissionNotGranted":          {rpctypes.ErrGRPCPermissionNotGranted, Unknown, elsewhere},
	"ErrGRPCInvalidAuthMgmt":               {rpctypes.ErrGRPCInvalidAuthMgmt, Unknown, elsewhere},
	"ErrGRPCNotLeader":                     {rpctypes.ErrGRPCNotLeader, Unknown, elsewhere},
	"ErrGRPCUnhealthy":                     {rpctypes.ErrGRPCUnhealthy, Unknown, elsewhere},
	"ErrGRPCBadLeaderTransferee":           {rpctypes.ErrGRPCBadLeaderTransferee, Unknown, elsewhere},
	"ErrGRPCWrongDowngradeVersionFormat":   {rpctypes.ErrGRPCWrongDowngradeVersionFormat, Unknown, elsewhere},
	"ErrGRPCInvalidDowngradeTargetVersion": {rpctypes.ErrGRPCInvalidDowngradeTargetVersion, Unknown, elsewhere},
	"ErrGRPCClusterVersionUnavailable":     {rpctypes.ErrGRPCClusterVersionUnavailable, Unknown, elsewhere},
	"ErrGRPCDowngradeInProcess":            {rpctypes.ErrGRPCDowngradeInProcess, Unknown, elsewhere},
	"ErrGRPCNoInflightDowngrade":           {rpctypes.ErrGRPCNoInflightDowngrade, Unknown, elsewhere},
}

func TestEveryStatusOfEtcdIsClassified(t *testing.T) {
	for name, want := range verdicts {
		outcome, next := classify(want.err)
		assert.Equal(t, want.outcome, outcome, name)
		assert.Equal(t, want.next, next, name)
	}
	for name := range exportedStatuses(t) {
		assert.Contains(t, verdicts, name, "a status that nobody has thought about")
	}
}

// exportedStatuses reads the names from rpctypes' source.
func exportedStatuses(t *testing.T) map[string]bool {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "go.etcd.io/etcd/api/v3/v3rpc/rpctypes").Output()
	require.NoError(t, err)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "error.go"), nil, 0)
	require.NoError(t, err)
	names := make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "ErrGRPC") {
			names[spec.Names[0].Name] = true
		}
		return true
	})
	require.Greater(t, len(names), 50)
	return names
}

func TestAStatusIsKnownByCodeAndMessageTogether(t *testing.T) {
	for name, v := range verdicts {
		s := status.Convert(v.err)
		outcome, _ := classify(status.Error(codes.Aborted, s.Message()))
		assert.Equal(t, Unknown, outcome, name)
		outcome, _ = classify(status.Error(s.Code(), s.Message()+"!"))
		assert.Equal(t, Unknown, outcome, name)
	}
}

func TestTooManyRequestsIsKnownAsTheServerSendsIt(t *testing.T) {
	// A status of code Unknown, because the server maps it to an error that is no gRPC status.
	for _, c := range []codes.Code{codes.Unknown, codes.ResourceExhausted} {
		outcome, next := classify(status.Error(c, "etcdserver: too many requests"))
		assert.Equal(t, NotApplied, outcome)
		assert.Equal(t, elsewhere, next)
	}
	outcome, _ := classify(status.Error(codes.Unknown, "etcdserver: no leader"))
	assert.Equal(t, Unknown, outcome)
}

func TestOtherErrorsAreClassified(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want Outcome
	}{
		{errors.New("anything"), Unknown},
		{status.Error(codes.Unavailable, "connection reset"), Unknown},
		{status.Error(codes.Unknown, "raft proposal dropped"), NotApplied},
		{status.Error(codes.Unimplemented, "unknown service"), NotApplied},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"), Answered},
	} {
		outcome, _ := classify(tc.err)
		assert.Equal(t, tc.want, outcome, "%v", tc.err)
	}
}

func TestPredicatesFindTheStatusWithinOtherErrors(t *testing.T) {
	wrap := func(err error) error {
		return fmt.Errorf("lock: %w", &Error{Op: "txn", Err: fmt.Errorf("x: %w", err)})
	}
	for want, is := range map[error]func(error) bool{
		rpctypes.ErrGRPCNoSpace: IsNoSpace, rpctypes.ErrGRPCPermissionDenied: IsPermissionDenied,
		rpctypes.ErrGRPCLeaseNotFound: IsLeaseNotFound, rpctypes.ErrGRPCLeaseExist: IsLeaseExists,
		rpctypes.ErrGRPCTooManyOps:       IsTooManyOps,
		rpctypes.ErrGRPCInvalidAuthToken: IsTokenRefusal, rpctypes.ErrGRPCUserEmpty: IsTokenRefusal,
		rpctypes.ErrGRPCAuthOldRevision: IsTokenRefusal, rpctypes.ErrGRPCRequestTooLarge: IsTooLarge,
		status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"): IsTooLarge,
	} {
		assert.True(t, is(wrap(want)), want)
		assert.False(t, is(wrap(rpctypes.ErrGRPCTimeout)), want)
		assert.False(t, is(nil), want)
		assert.False(t, is(errors.New(want.Error())), want)
	}
	assert.True(t, IsCode(wrap(rpctypes.ErrGRPCTimeout), codes.Unavailable))
	assert.False(t, IsCode(nil, codes.OK))
}

func TestCancelReasonsOfWatchesAreKnown(t *testing.T) {
	assert.True(t, IsTokenRefusalText(rpctypes.ErrGRPCInvalidAuthToken.Error()))
	assert.True(t, IsTokenRefusalText("etcdserver: revision of auth store is old"))
	assert.True(t, IsTokenRefusalText("rpc error: code = InvalidArgument desc = etcdserver: user name is empty"))
	assert.False(t, IsTokenRefusalText(rpctypes.ErrGRPCPermissionDenied.Error()))
	assert.False(t, IsTokenRefusalText(""))
}
