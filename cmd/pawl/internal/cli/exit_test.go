package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestAnErrorIsFollowedByWhatToDo(t *testing.T) {
	root, cmd := &cobra.Command{Use: "pawl"}, &cobra.Command{Use: "lock"}
	root.AddCommand(cmd)
	leaderless := errors.Join(context.DeadlineExceeded, status.Error(codes.Unavailable, "connection refused"), fmt.Errorf("b: %w", rpctypes.ErrGRPCNoLeader))
	for want, err := range map[string]error{
		"see pawl lock --help":                    Usage("no"),
		"is there a cluster at":                   Reach(context.DeadlineExceeded),
		"check --user":                            Exit(ExitNoCluster, status.Error(codes.Unauthenticated, "no")),
		"most members of the cluster have to run": Reach(leaderless),
		"etcd's database is full":                 Reach(fmt.Errorf("session: %w", rpctypes.ErrGRPCNoSpace)),
	} {
		assert.Contains(t, hintFor(cmd, err), want)
	}
	for _, err := range []error{nil, Exit(3, nil), errors.New("no"), Exit(ExitLost, errors.New("no"))} {
		assert.Empty(t, hintFor(cmd, err))
	}
}
