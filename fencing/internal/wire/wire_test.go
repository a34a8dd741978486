package wire

import (
	"net/url"
	"strings"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestEveryPairHasOneSpellingOfPrintableASCII(t *testing.T) {
	for _, resource := range []string{"a", "jobs/42", "a b", " ", "shared", " shared", "a shared", "a,b", "a;b", "ä", "\x00\n\xff", "%", "a%2Fb", strings.Repeat("\xff", fencing.MaxResource)} {
		for _, token := range []fencing.Token{1, 57, 1<<63 - 1} {
			for _, shared := range []bool{false, true} {
				want := Token{resource, token, shared}
				text := want.String()
				for _, c := range []byte(text) {
					require.True(t, c >= ' ' && c <= '~' && c != ',', "%q", text)
				}
				got, err := Parse(text)
				require.NoError(t, err)
				assert.Equal(t, want, got)
				carried, ok := FromContext(got.NewContext(t.Context()))
				assert.True(t, ok)
				assert.Equal(t, want, carried)
			}
		}
	}
	assert.Equal(t, "57 jobs%2F42", Token{"jobs/42", 57, false}.String())
	assert.Equal(t, "57 jobs%2F42 shared", Token{"jobs/42", 57, true}.String())
}

// The version before shared tokens: a guard that does not know shared tokens must refuse them.
func TestTextOfASharedTokenIsGarbledToWhatKnowsNone(t *testing.T) {
	digits, escaped, _ := strings.Cut(Token{"jobs", 57, true}.String(), " ")
	resource, err := url.PathUnescape(escaped)
	require.NoError(t, err)
	assert.NotEqual(t, Token{"jobs", 57, true}.String(), digits+" "+url.PathEscape(resource))
}

func TestParseTakesNoOtherSpelling(t *testing.T) {
	for _, text := range []string{"", " ", "57", "57 ", " a", "a", "0 a", "-1 a", "+57 a", "057 a", "57  a", "57 a ", " 57 a", "57\ta", "57 a/b", "57 a%2fb", "57 a%", "57 %61", "57 a, 57 a",
		"57 a,57 a", "57 a;b", "9223372036854775808 a", "57.0 a", "0x39 a", "57 " + strings.Repeat("a", fencing.MaxResource+1), "57 ä", "57 a\n", "57  shared", "shared",
		"57 a  shared", "57 a shared ", "57 a Shared", "57 a shared shared", "57 a exclusive", "57 a, 58 b shared", "57 a 58 b shared"} {
		_, err := Parse(text)
		assert.ErrorIs(t, err, ErrGarbled, "%q", text)
	}
}

func FuzzParseTakesOnlyWhatFormatWrites(f *testing.F) {
	f.Add("57 jobs%2F42")
	f.Add("57 jobs%2F42 shared")
	f.Fuzz(func(t *testing.T, text string) {
		if token, err := Parse(text); err == nil {
			require.Equal(t, text, token.String())
		}
	})
}
