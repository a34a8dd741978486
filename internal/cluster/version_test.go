package cluster

import (
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

// F13.
func TestVersionsThatBreakARuleAreKnown(t *testing.T) {
	for version, bad := range map[string]bool{
		"2.3.8": true, "3.3.27": true, "3.4.0": true, "3.4.44": true, "3.5.0": true, "3.5.27": true, "3.5.28": false, "3.5.28-rc.0": true,
		"3.5.99": false, "3.6.0": true, "3.6.8": true, "3.6.9-rc.1": true, "3.6.9": false, "3.6.0-alpha.0": true, "3.7.0-alpha.0": true,
		"3.7.0-rc.1": true, "3.7.0": false, "3.7.3": false, "3.7.3+git": false, "3.8.0-alpha.0": false, "4.0.0": false,
		"": true, "3.7": true, "three": true, "3.x.1": true,
	} {
		assert.Equal(t, bad, VersionFault(version) != "", version)
	}
	assert.Contains(t, VersionFault("3.3.1"), "not supported")
	assert.Contains(t, VersionFault("3.4.44"), "known bugs")
}

func TestVersionsThatDoNotEnforcePermissionsAreKnown(t *testing.T) {
	const watch, put = "GHSA-xg4h-6gfc-h4m8", "GHSA-x35m-3gp4-4fh5"
	for version, want := range map[string][]string{
		"3.4.44": {watch, put}, "3.5.29": {watch, put}, "3.5.30": {watch}, "3.5.32": {watch}, "3.5.33-rc.0": {watch}, "3.5.33": nil, "3.5.40": nil,
		"3.6.10": {watch, put}, "3.6.11": {watch}, "3.6.13": {watch}, "3.6.14": nil, "3.7.0-rc.0": {watch, put}, "3.7.0": {watch}, "3.7.1": nil,
		"3.8.0-alpha.0": nil, "4.0.0": nil, "": nil,
	} {
		got := SecurityFault(version)
		for _, advisory := range []string{watch, put} {
			assert.Equal(t, slices.Contains(want, advisory), strings.Contains(got, advisory), "%s: %s", version, got)
		}
	}
}

func TestARestoredClusterIsToldByItsLog(t *testing.T) {
	status := func(index uint64, revision int64) *pb.StatusResponse {
		return &pb.StatusResponse{RaftIndex: index, Header: &pb.ResponseHeader{Revision: revision}}
	}
	assert.False(t, Restored(status(4, 1)))
	assert.False(t, Restored(status(1000, 1000)))
	assert.True(t, Restored(status(7, 1_000_000_123)))
	assert.False(t, Restored(&pb.StatusResponse{}))
}
