package shards

import (
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestAMemberIsReadAsItWasWritten(t *testing.T) {
	for _, m := range []Member{
		{Weight: 1},
		{Weight: -1, Value: []byte("10.0.0.7:80")},
		{Weight: 100, Value: []byte{0, 255}, Leaving: true, Cannot: SetOf(0, 1, 63), Coming: SetOf(7)},
		{Weight: 2, Carriers: []int64{0x7a, 1 << 62}},
	} {
		got, err := DecodeMember(64, m.Encode())
		require.NoError(t, err)
		assert.Equal(t, m, got)
	}
	assert.Equal(t, `{"weight":1}`, string(Member{Weight: 1}.Encode()))
}

func TestAbsurdMembersAreRefused(t *testing.T) {
	for _, bad := range []string{
		"", "x", "{}", `{"weight":0}`, `{"weight":10001}`, `{"weight":1.5}`, `{"weight":1,"cannot":"PTY0"}`, `{"weight":1,"coming":"!"}`, `{"weight":1,"carriers":["g"]}`, `{"weight":1,"carriers":[7]}`,
		`{"weight":1,"value":"` + strings.Repeat("AAAA", 400) + `"}`,
	} {
		_, err := DecodeMember(64, []byte(bad))
		assert.Error(t, err, bad)
	}
	m, err := DecodeMember(64, []byte(`{"weight":3,"zone":"a"}`))
	require.NoError(t, err, "what a later version adds")
	assert.Equal(t, 3, m.Weight)
}
