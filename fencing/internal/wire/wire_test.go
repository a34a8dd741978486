package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
)

func TestEveryPairHasOneSpellingOfPrintableASCII(t *testing.T) {
	for _, resource := range []string{"a", "jobs/42", "a b", " ", "a,b", "a;b", "ä", "\x00\n\xff", "%", "a%2Fb", strings.Repeat("\xff", fencing.MaxResource)} {
		for _, token := range []fencing.Token{1, 57, 1<<63 - 1} {
			text := Format(resource, token)
			for _, c := range []byte(text) {
				require.True(t, c >= ' ' && c <= '~' && c != ',', "%q", text)
			}
			gotResource, gotToken, err := Parse(text)
			require.NoError(t, err)
			assert.Equal(t, resource, gotResource)
			assert.Equal(t, token, gotToken)
		}
	}
	assert.Equal(t, "57 jobs%2F42", Format("jobs/42", 57))
}

func TestParseTakesNoOtherSpelling(t *testing.T) {
	for _, text := range []string{"", " ", "57", "57 ", " a", "a", "0 a", "-1 a", "+57 a", "057 a", "57  a", "57 a ", " 57 a", "57\ta", "57 a/b", "57 a%2fb", "57 a%", "57 %61", "57 a, 57 a",
		"57 a,57 a", "57 a;b", "9223372036854775808 a", "57.0 a", "0x39 a", "57 " + strings.Repeat("a", fencing.MaxResource+1), "57 ä", "57 a\n"} {
		_, _, err := Parse(text)
		assert.ErrorIs(t, err, ErrGarbled, "%q", text)
	}
}

func FuzzParseTakesOnlyWhatFormatWrites(f *testing.F) {
	f.Add("57 jobs%2F42")
	f.Fuzz(func(t *testing.T, text string) {
		if resource, token, err := Parse(text); err == nil {
			require.Equal(t, text, Format(resource, token))
		}
	})
}
