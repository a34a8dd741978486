package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A refused delete says that the key did not exist, unless an earlier delete of it may have been
// applied: then that one has deleted it.
func TestADeleteOfOneKeyIsDecidedByItsAnswers(t *testing.T) {
	was := OwnChanged{Index: 1, Create: 5, Mod: 5, OnLease: true}
	ours := KeyDelete{Decided: true, Was: &was}
	lost := KeyDelete{Decided: true}
	for name, c := range map[string]struct {
		answers []Outcome
		want    KeyDelete
	}{
		"applied":                  {[]Outcome{Applied}, ours},
		"refused":                  {[]Outcome{Refused}, lost},
		"not applied":              {[]Outcome{NotApplied}, KeyDelete{}},
		"not applied, and refused": {[]Outcome{NotApplied, Refused}, lost},
		"unknown":                  {[]Outcome{Unknown}, KeyDelete{Doubt: true}},
		"unknown, and applied":     {[]Outcome{Unknown, Applied}, KeyDelete{Decided: true, Was: &was, Doubt: true}},
		"unknown, and refused":     {[]Outcome{Unknown, Refused}, KeyDelete{Decided: true, Was: &OwnChanged{Index: 1}, Doubt: true}},
		"unknown, not applied, refused": {[]Outcome{Unknown, NotApplied, Refused},
			KeyDelete{Decided: true, Was: &OwnChanged{Index: 1}, Doubt: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var d KeyDelete
			for _, o := range c.answers {
				d.Answered(1, o, was)
			}
			assert.Equal(t, c.want, d)
		})
	}
}

func TestAReleaseOfASetIsDecidedByAllItsKeys(t *testing.T) {
	was := func(i int, mod int64) KeyDelete {
		return KeyDelete{Decided: true, Was: &OwnChanged{Index: i, Create: 5, Mod: mod}}
	}
	gone := KeyDelete{Decided: true}
	for name, c := range map[string]struct {
		keys []KeyDelete
		want DeleteAnswered
	}{
		"all":                     {[]KeyDelete{was(0, 5), was(1, 5)}, DeleteAnswered{Was: *was(1, 5).Was}},
		"the one written to last": {[]KeyDelete{was(0, 9), was(1, 5)}, DeleteAnswered{Was: *was(0, 9).Was}},
		"one did not exist":       {[]KeyDelete{gone, was(1, 5)}, DeleteAnswered{Outcome: Refused, Partly: true}},
		"another did not exist":   {[]KeyDelete{was(0, 5), gone}, DeleteAnswered{Outcome: Refused, Partly: true, Missing: 1}},
		"none existed":            {[]KeyDelete{gone, gone}, DeleteAnswered{Outcome: Refused, Missing: 1}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, SetDeleted(c.keys)) })
	}
}
