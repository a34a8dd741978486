package statefile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each condition in which a start may find the file: it is used, or the start is refused and the
// file stays.
func TestWhatCannotBeUsedIsRefusedAndStays(t *testing.T) {
	golden, err := os.ReadFile("testdata/state.json")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		says string
	}{
		"whole":                    {string(golden), 0o600, ""},
		"empty":                    {"", 0o600, "is empty"},
		"cut off":                  {string(golden[:len(golden)/2]), 0o600, "unexpected end"},
		"something else":           {"\x00\x00\x00", 0o600, "invalid character"},
		"JSON of something else":   {`[1]`, 0o600, "cannot unmarshal"},
		"with a Handle of nothing": {`{"Version":1,"Handle":"pawl1.AAAA"}`, 0o600, "cannot be used"},
		"of a later version":       {`{"Version":2}`, 0o600, "is of version 2, this pawld knows 1"},
		"of a later form":          {`{"Version":3,"Sessions":{"a":1}}`, 0o600, "is of version 3, this pawld knows 1"},
		"without a version":        {`{}`, 0o600, "is of version 0"},
		"readable by others":       {string(golden), 0o644, "can be read by others"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Open(filepath.Join(t.TempDir(), "state"))
			require.NoError(t, err)
			defer d.Close()
			require.NoError(t, os.WriteFile(d.file(), []byte(c.text), c.mode))
			_, ok, err := d.Read()
			if c.says == "" {
				require.NoError(t, err)
				assert.True(t, ok)
				return
			}
			require.ErrorIs(t, err, ErrUnusable)
			require.ErrorContains(t, err, c.says)
			require.FileExists(t, d.file(), "a pawld that knows it may come")
			require.NoError(t, d.Discard())
			_, ok, err = d.Read()
			require.NoError(t, err)
			assert.False(t, ok)
		})
	}
}

func TestADirectoryOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(path, 0o700))
	require.NoError(t, os.Chown(path, 12345, -1))
	_, err := Open(path)
	require.ErrorContains(t, err, "belongs to user 12345")
	require.NoError(t, os.Chown(path, 0, -1))
	d, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// The root of a volume of Kubernetes may be writable to all, and a directory in it is pawld's own.
func TestADirectoryThatOthersCanWriteToIsRefusedAndOneInItIsMade(t *testing.T) {
	volume := t.TempDir()
	require.NoError(t, os.Chmod(volume, 0o777|os.ModeSticky))
	_, err := Open(volume)
	require.ErrorContains(t, err, "can be written by others")
	path := filepath.Join(volume, "state")
	d, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}
