package statefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/cmd/pawld/internal/service"
)

// left is one of everything that a file could hold when its version was new.
func left(t *testing.T) (s service.Saved) {
	require.NoError(t, s.Handle.UnmarshalText([]byte("pawl1.eyJsZWFzZSI6MSwiY2x1c3RlciI6MiwidHRsIjozMCwia2V5IjoiTHk5d1lYZHNMekU9IiwiY3JlYXRlIjozLCJtb2QiOjMsIm5leHQiOjUsInRvUmVtb3ZlIjpbImJTOHhMVEk9Il0sImxvc3QiOlsyXX0")))
	s.Sessions = []service.SavedSession{{
		ID: "0123456789abcdef0123456789abcdef", Identity: "uid:1000", TTL: 10 * time.Second, Rows: []service.SavedRow{
			{
				Request: "00000000000000000000000000000001", State: registry.Held, Left: 5 * time.Second, Keys: []string{"n/1-1"}, Token: 7,
				Params: registry.Params{Text: `{"Names":["n"],"Modes":["exclusive"],"Owner":"uid:1000","Delay":0,"MaxHold":60000000000}`, MaxHold: time.Minute},
			},
			{Request: "00000000000000000000000000000002", State: registry.Released},
			{Request: "00000000000000000000000000000003", State: registry.Lost, Why: "KEY_DELETED", Params: registry.Params{Text: "{}", More: 1}},
			{Request: "00000000000000000000000000000004", State: registry.Left, Why: "NOT_HELD"},
		},
	}, {ID: "fedcba9876543210fedcba9876543210", Identity: "cn:worker", TTL: 3 * time.Second, Ended: true}}
	return s
}

// Another version of pawld reads the file: testdata/state.json changes together with its version,
// or not at all.
func TestTheFileIsReadAndWrittenAsItWas(t *testing.T) {
	golden, err := os.ReadFile("testdata/state.json")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "state")
	d, err := Open(path)
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, d.Write(left(t)))
	text, err := os.ReadFile(filepath.Join(path, "state.json"))
	require.NoError(t, err)
	assert.Equal(t, string(golden), string(text)+"\n")

	require.NoError(t, os.WriteFile(filepath.Join(path, "state.json"), golden, 0o600))
	got, ok, err := d.Read()
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, left(t), got)
	got, ok, err = d.Read()
	require.NoError(t, err)
	assert.True(t, ok, "who was ended in between has taken nothing over")
	assert.Equal(t, left(t), got)
	require.NoError(t, d.Discard())
	_, ok, err = d.Read()
	require.NoError(t, err)
	assert.False(t, ok)
}

// A version before it does not know it, and refuses another TTL than the default.
func TestTheFileSaysWhichSessionsHaveNoTTLYet(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "state"))
	require.NoError(t, err)
	defer d.Close()
	want := left(t)
	want.Sessions[1].Provisional = true
	require.NoError(t, d.Write(want))
	got, _, err := d.Read()
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// A version before it does not know it, and takes the lock over as held.
func TestTheFileSaysWhichReleasesAreUndecided(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "state"))
	require.NoError(t, err)
	defer d.Close()
	want := left(t)
	want.Sessions[0].Rows[0].Releasing = true
	require.NoError(t, d.Write(want))
	got, _, err := d.Read()
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Equal(t, registry.Held, got.Sessions[0].Rows[0].State)
}

// What another version has left stays for a pawld that knows it.
func TestAFileOfAnotherVersionIsRefusedAndLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d, err := Open(path)
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, d.Write(left(t)))
	file := filepath.Join(path, "state.json")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), `"Version":1,`)
	for was, want := range map[string]string{
		`{"Version":2,`: "is of version 2, this pawld knows 1",
		`{`:             "is of version 0, this pawld knows 1",
		`[`:             "state.json: ",
	} {
		require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), `{"Version":1,`, was, 1)), 0o600))
		_, ok, err := d.Read()
		assert.False(t, ok)
		assert.ErrorContains(t, err, want)
		assert.FileExists(t, file)
	}
}
