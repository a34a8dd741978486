package reclaim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rule: RC1, RC2, RC3, RC4, RC5
func TestEveryInterleavingOfAReclaimIsSafe(t *testing.T) {
	states, wrong := Explore(Rules{})
	require.Empty(t, wrong)
	assert.Greater(t, states, 400)
	t.Log(states, "states")
}

// rule: RC1, RC2, RC3, RC4, RC5
func TestEachRuleOfReclaimIsNeeded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules Rules
		want  string
	}{
		{"descriptor only", Rules{Descriptor: true}, "two believe"},
		{"published after the first key", Rules{PublishedLate: true}, "nobody can free what a dead process holds"},
		{"no inode", Rules{NoInode: true}, "two believe"},
		{"no boot ID", Rules{NoBoot: true}, "two believe"},
		{"bare revocation", Rules{BareRevoke: true, DetachKeeps: true}, "two believe"},
		{"no lock-delay", Rules{NoDelay: true}, "a write comes after the next holder's"},
		{"unlocked before it is removed", Rules{UnlockedFirst: true}, "one death is proved twice"},
		{"the file outlives the Handle", Rules{DetachKeeps: true}, "a session that was handed over is reclaimed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, wrong := Explore(tt.rules)
			require.Contains(t, wrong, tt.want)
			t.Log(wrong[tt.want])
		})
	}
}
