package fencetest

import (
	"testing"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// at places an operation on the clock.
func (o Op) at(call, ret int) Op {
	o.Call, o.Return, o.Resource, o.Who = time.Duration(call)*time.Millisecond, time.Duration(ret)*time.Millisecond, "r", "w"
	return o
}

func read(t fencing.Token, value string) Op {
	return Op{Kind: Read, Token: t, Value: value, Outcome: Applied}
}

func wrote(t fencing.Token, value string) Op {
	return Op{Kind: Write, Token: t, Value: value, Outcome: Applied}
}

func refused(t, highest fencing.Token, value string) Op {
	return Op{Kind: Write, Token: t, Value: value, Outcome: Refused, Highest: highest}
}

func lost(t fencing.Token, value string) Op {
	return Op{Kind: Write, Token: t, Value: value, Outcome: Unknown}
}

func sharing(t fencing.Token, value string) Op {
	return Op{Kind: Read, Token: t, Shared: true, Value: value, Outcome: Applied}
}

func refusedSharing(t, highest fencing.Token) Op {
	return Op{Kind: Read, Token: t, Shared: true, Outcome: Refused, Highest: highest}
}

func TestCheckAcceptsWhatAGuardLetsThrough(t *testing.T) {
	for name, history := range map[string][]Op{
		"nothing":                                                  nil,
		"holders one after the other":                              {read(1, "").at(0, 1), wrote(1, "a").at(2, 3), read(2, "a").at(4, 5), wrote(2, "b").at(6, 7), read(2, "b").at(8, 9)},
		"a stale write refused":                                    {wrote(1, "a").at(0, 1), read(2, "a").at(2, 3), refused(1, 2, "b").at(4, 5), read(2, "a").at(6, 7)},
		"a race, either way first":                                 {read(2, "a").at(0, 9), wrote(1, "a").at(0, 9)},
		"a race, the other first":                                  {read(2, "").at(0, 9), refused(1, 2, "a").at(0, 9)},
		"a lost answer, applied":                                   {lost(1, "a").at(0, 1), read(1, "a").at(2, 3)},
		"a lost answer, not applied":                               {lost(1, "a").at(0, 1), read(1, "").at(2, 3)},
		"a lost answer, applied late":                              {lost(1, "a").at(0, 1), read(1, "").at(2, 3), read(1, "a").at(4, 5)},
		"a refusal by one whose answer lost":                       {lost(2, "a").at(0, 1), refused(1, 2, "b").at(2, 3)},
		"a refusal by one that was refused":                        {wrote(3, "a").at(0, 9), refused(2, 3, "b").at(0, 9), refused(1, 2, "c").at(0, 9)},
		"a lost answer, applied after a later write of its holder": {lost(1, "a").at(0, 1), wrote(1, "b").at(2, 3), read(1, "a").at(4, 5)},
		"a lost answer, applied between two reads":                 {wrote(1, "b").at(0, 1), lost(1, "a").at(0, 1), read(1, "b").at(2, 3), read(1, "a").at(4, 5)},
		"readers in any order":                                     {wrote(1, "a").at(0, 1), sharing(3, "a").at(2, 3), sharing(2, "a").at(4, 5), sharing(3, "a").at(6, 7)},
		"a writer refused by a reader":                             {sharing(2, "").at(0, 1), refused(1, 2, "a").at(2, 3)},
		"a reader refused by a writer":                             {wrote(2, "a").at(0, 1), refusedSharing(1, 2).at(2, 3)},
		"a reader refused by an equal exclusive token":             {wrote(2, "a").at(0, 1), refusedSharing(2, 2).at(2, 3)},
		"a writer that races readers before it":                    {sharing(1, "").at(0, 9), wrote(2, "a").at(0, 9), sharing(3, "a").at(0, 9)},
		"writes under one token in a race":                         {wrote(1, "a").at(0, 9), wrote(1, "b").at(0, 9), read(1, "a").at(10, 11)},
	} {
		t.Run(name, func(t *testing.T) { assert.NoError(t, Check(history)) })
	}
}

func TestCheckNamesTheFirstViolation(t *testing.T) {
	for name, c := range map[string]struct {
		rule    string
		op      int
		history []Op
	}{
		"stale write":                 {"a stale token was admitted", 1, []Op{wrote(2, "a").at(0, 1), wrote(1, "b").at(2, 3), wrote(1, "c").at(4, 5)}},
		"stale read":                  {"a stale token was admitted", 1, []Op{wrote(2, "a").at(0, 1), read(1, "a").at(2, 3)}},
		"stale read in a race":        {"a stale read was admitted", 1, []Op{wrote(2, "a").at(0, 9), read(1, "a").at(0, 9)}},
		"stale read, after others":    {"a stale read was admitted", 3, []Op{wrote(1, "a").at(0, 1), read(2, "a").at(3, 4), wrote(2, "b").at(5, 6), read(1, "b").at(2, 7)}},
		"no token":                    {"no token", 0, []Op{wrote(0, "a").at(0, 1)}},
		"refused for nothing":         {"refused, and no greater token was there", 1, []Op{wrote(1, "a").at(0, 1), refused(1, 2, "b").at(2, 3)}},
		"refused by the future":       {"refused, and no greater token was there", 0, []Op{refused(1, 2, "b").at(2, 3), wrote(2, "a").at(4, 5)}},
		"refused without name":        {"refused, and the refusal names", 1, []Op{wrote(2, "a").at(0, 1), refused(1, 1, "b").at(2, 3)}},
		"value from nowhere":          {"a value was read that nobody", 0, []Op{read(1, "x").at(0, 1)}},
		"value of the future":         {"a value was read that nobody", 0, []Op{read(1, "x").at(0, 1), wrote(1, "x").at(2, 3)}},
		"refused, and applied":        {"a write was refused, and applied", 2, []Op{wrote(2, "a").at(0, 1), refused(1, 2, "b").at(2, 3), read(2, "b").at(4, 5)}},
		"lost update":                 {"a write was lost", 2, []Op{wrote(1, "a").at(0, 1), wrote(1, "b").at(2, 3), read(1, "a").at(4, 5)}},
		"lost altogether":             {"a write was lost", 1, []Op{wrote(1, "a").at(0, 1), read(1, "").at(2, 3)}},
		"late write, unknown":         {"an older holder's write was applied after", 2, []Op{lost(1, "a").at(0, 1), read(2, "").at(2, 3), read(2, "a").at(4, 5)}},
		"late write, in a race":       {"an older holder's write was applied, and missed", 1, []Op{wrote(1, "a").at(0, 9), read(2, "").at(1, 2), read(2, "a").at(10, 11)}},
		"read, then registered":       {"an older holder's write was applied, and missed", 1, []Op{wrote(1, "a").at(1, 8), read(2, "").at(0, 9), wrote(2, "b").at(10, 11)}},
		"lost to an older one":        {"an older holder's write was applied, and missed", 2, []Op{wrote(1, "a").at(0, 1), wrote(2, "b").at(2, 9), read(3, "a").at(2, 8)}},
		"stale writer after a reader": {"a stale token was admitted", 1, []Op{sharing(2, "").at(0, 1), wrote(1, "a").at(2, 3)}},
		"stale reader after a writer": {"a stale token was admitted", 1, []Op{wrote(2, "a").at(0, 1), sharing(1, "a").at(2, 3)}},
		"stale write under a reader":  {"an older holder's write was applied, and missed", 0, []Op{sharing(2, "").at(0, 9), wrote(1, "a").at(0, 9)}},
		"reader of the future":        {"a stale read was admitted", 1, []Op{wrote(2, "a").at(0, 9), sharing(1, "a").at(0, 9)}},
		"reader refused by a reader":  {"refused, and no greater token was there", 1, []Op{sharing(3, "").at(0, 1), refusedSharing(2, 3).at(2, 3)}},
		"reader refused by nobody":    {"refused, and the refusal names", 1, []Op{wrote(1, "a").at(0, 1), refusedSharing(2, 1).at(2, 3)}},
	} {
		t.Run(name, func(t *testing.T) {
			var v *Violation
			require.ErrorAs(t, Check(c.history), &v)
			assert.Contains(t, v.Rule, c.rule)
			assert.Equal(t, c.history[c.op], v.Op)
			assert.Contains(t, v.Error(), v.Op.String())
		})
	}
}

func TestCheckRefusesWhatIsNoHistory(t *testing.T) {
	assert.ErrorContains(t, Check([]Op{wrote(1, "a").at(3, 2)}), "not a history")
	assert.ErrorContains(t, Check([]Op{wrote(1, "a").at(0, 1), wrote(1, "a").at(2, 3)}), "not a history")
	assert.ErrorContains(t, Check([]Op{wrote(1, "").at(0, 1)}), "not a history")
}

func TestCheckKeepsResourcesApart(t *testing.T) {
	other := wrote(1, "a").at(2, 3)
	other.Resource = "other"
	assert.NoError(t, Check([]Op{wrote(2, "a").at(0, 1), other}))
}
