//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// With TLS the three do the same work as without, and the server refuses who comes without it.
func TestARunOverTLSCountsWhatEachSends(t *testing.T) {
	t.Parallel()
	e, err := startEtcd(t.Context(), t.TempDir(), 1, true)
	require.NoError(t, err)
	t.Cleanup(e.stop)
	r := &results{flags: flags{short: true}, got: map[string]map[string][][]figures{}}
	s := scenario{Name: "tls-2", Task: "uncontended", Sizes: []int{2}, Span: 200 * time.Millisecond, TTL: longTTL, TLS: true, kits: three, turns: 1}
	require.NoError(t, r.round(t.Context(), e, 0, s))
	for kit, want := range map[string]counts{ours: {"Txn": 2}, theirs: {"DeleteRange": 1, "Txn": 1}, bare: {"Txn": 2}} {
		got := r.of("tls-2", kit, 2)
		require.Len(t, got, 1, kit)
		assert.Positive(t, got[0].Ops)
		assert.Positive(t, got[0].CPU)
		want.reached(t, got[0], kit)
	}
	_, err = scrape(e.addr)
	assert.Error(t, err, "plain text on the address for clients")
}

// A kit without TLS is not measured in plain text instead.
func TestAKitWithoutTLSIsRefusedByASecureServer(t *testing.T) {
	_, err := securedWith(gatewayKit{}, "cert.pem")
	assert.ErrorContains(t, err, "has no TLS")
}
