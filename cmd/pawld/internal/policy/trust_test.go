package policy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPolicyThatEverybodyMayWriteIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(path, []byte("uid:1 a\n"), 0o644))
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o664: false, 0o666: true, 0o602: true} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := Load(path)
		if refused {
			require.ErrorContains(t, err, "can be written by everybody", mode.String())
			continue
		}
		require.NoError(t, err, mode.String())
	}
}

// A name is what an operator sees of it.
func TestWhatNobodySeesIsRefusedUnlessItIsSpelt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy")
	load := func(line string) (*Policy, error) {
		require.NoError(t, os.WriteFile(path, []byte(line+"\n"), 0o600))
		return Load(path)
	}
	for what, c := range map[string]string{
		"a space without a width": "\u200b", "a space that does not break": "\u00a0", "a mark of the order of bytes": "\ufeff",
		"a change of direction": "\u202e", "a tag": "\U000e0041", "a control character": "\x07",
	} {
		for _, line := range []string{"uid:1 rep" + c + "ort", `uid:1 "rep` + c + `ort"`, "cn:a" + c + "b report"} {
			_, err := load(line)
			require.ErrorContains(t, err, "which nobody sees", "%s: %q", what, line)
		}
		_, err := load("# a comment " + c + "\nuid:1 a")
		require.NoError(t, err, what)
	}
	p, err := load(`uid:1 "rep\u200bort" größe` + "\tb")
	require.NoError(t, err)
	for _, name := range []string{"rep\u200bort", "größe", "b"} {
		assert.True(t, p.Allows("uid:1", true, name), name)
	}
}

func TestWhoHasNoLineIsNotKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(path, []byte("uid:1 a\n"), 0o600))
	p, err := Load(path)
	require.NoError(t, err)
	var none *Policy
	for _, c := range []struct {
		p        *Policy
		identity string
		local    bool
		want     bool
	}{{p, "uid:1", true, true}, {p, "uid:2", true, false}, {p, "cn:a", false, false}, {none, "uid:2", true, true}, {none, "cn:a", false, false}} {
		assert.Equal(t, c.want, c.p.Knows(c.identity, c.local), c.identity)
	}
}
