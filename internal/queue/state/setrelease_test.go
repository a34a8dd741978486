package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// ML5: each delete of one key is answered by itself, and a lost answer is remembered.
func TestADeleteOfOneKeyIsDecidedByItsAnswers(t *testing.T) {
	was := OwnChanged{Index: 1, Create: 5, Mod: 5, OnLease: true}
	for name, c := range map[string]struct {
		answers []Outcome
		want    KeyDelete
	}{
		"applied":                       {[]Outcome{Applied}, KeyDelete{Decided: true, Was: &was}},
		"refused":                       {[]Outcome{Refused}, KeyDelete{Decided: true}},
		"not applied":                   {[]Outcome{NotApplied}, KeyDelete{}},
		"not applied, and refused":      {[]Outcome{NotApplied, Refused}, KeyDelete{Decided: true}},
		"unknown":                       {[]Outcome{Unknown}, KeyDelete{Doubt: true}},
		"unknown, and applied":          {[]Outcome{Unknown, Applied}, KeyDelete{Decided: true, Doubt: true, Was: &was}},
		"unknown, not applied, refused": {[]Outcome{Unknown, NotApplied, Refused}, KeyDelete{Decided: true, Doubt: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var d KeyDelete
			for _, o := range c.answers {
				d.Answered(o, was)
			}
			assert.Equal(t, c.want, d)
		})
	}
}

// ML5, R1: a key that did not exist is a loss, unless an earlier delete of ours is an
// explanation: then a read finds out.
func TestAReleaseOfASetIsDecidedByAllItsKeys(t *testing.T) {
	was := func(i int, mod int64) KeyDelete {
		return KeyDelete{Decided: true, Was: &OwnChanged{Index: i, Create: 5, Mod: mod, OnLease: true}}
	}
	gone, doubtful := KeyDelete{Decided: true}, KeyDelete{Decided: true, Doubt: true}
	for name, c := range map[string]struct {
		keys []KeyDelete
		want DeleteAnswered
		then Verdict
	}{
		"all":                          {[]KeyDelete{was(0, 5), was(1, 5)}, DeleteAnswered{Was: *was(1, 5).Was}, Finished},
		"one was written to":           {[]KeyDelete{was(0, 9), was(1, 5)}, DeleteAnswered{Was: *was(0, 9).Was}, Lost},
		"one did not exist":            {[]KeyDelete{gone, was(1, 5)}, DeleteAnswered{Outcome: Refused, Partly: true}, Lost},
		"another did not exist":        {[]KeyDelete{was(0, 5), gone}, DeleteAnswered{Outcome: Refused, Partly: true, Missing: 1}, Lost},
		"none existed":                 {[]KeyDelete{gone, gone}, DeleteAnswered{Outcome: Refused, Missing: 1}, Explain},
		"one perhaps by us":            {[]KeyDelete{doubtful, was(1, 5)}, DeleteAnswered{Was: *was(1, 5).Was, Doubtful: true}, Explain},
		"all perhaps by us":            {[]KeyDelete{doubtful, doubtful}, DeleteAnswered{Doubtful: true}, Explain},
		"one perhaps by us, one not":   {[]KeyDelete{doubtful, gone}, DeleteAnswered{Outcome: Refused, Partly: true, Missing: 1}, Lost},
		"one perhaps, one overwritten": {[]KeyDelete{doubtful, was(1, 9)}, DeleteAnswered{Was: *was(1, 9).Was, Doubtful: true}, Lost},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, SetDeleted(c.keys))
			a := holding()
			a.Apply(Released{})
			a.Apply(DeleteSent{})
			assert.Equal(t, c.then, a.Apply(SetDeleted(c.keys)).Verdict)
		})
	}
}
