package pages

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplaceReplacesOneSection(t *testing.T) {
	page := "a\n<!-- x -->\nold\n<!-- /x -->\nb\n<!-- y -->\n<!-- /y -->\n"
	got, err := Replace(page, "x", "new\n\n")
	require.NoError(t, err)
	assert.Equal(t, "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n<!-- y -->\n<!-- /y -->\n", got)
	again, err := Replace(got, "x", "new")
	require.NoError(t, err)
	assert.Equal(t, got, again)
	_, err = Replace(page, "z", "")
	assert.EqualError(t, err, `there is no section "z"`)
}
