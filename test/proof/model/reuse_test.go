package model

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twiceAndOnce are a client that acquires twice and one that acquires once.
func twiceAndOnce(twice, once Want) []Client {
	return []Client{{Wants: []Want{twice, twice}}, {Wants: []Want{once}, Session: 1}}
}

// reused are the configurations in which numbers are used again.
var reused = []struct {
	name   string
	c      Config
	states int
}{
	{"a lock twice", Config{Clients: twiceAndOnce(lock, lock)}, 50_460},
	{"a lock twice, a second copy", Config{Clients: twiceAndOnce(lock, lock), Copies: 1}, 422_508},
	{"a lock twice, keys deleted", Config{Clients: twiceAndOnce(lock, lock), Deletes: 1, Losses: 1}, 164_811},
	{"a lock twice, no space", Config{Clients: twiceAndOnce(lock, lock), NoSpace: true}, 70_556},
	{"a lock twice, a snapshot", Config{Clients: twiceAndOnce(lock, lock), Restores: 1}, 79_937},
	{"a candidate twice", Config{Clients: twiceAndOnce(lock, lock), NoHandoffs: true}, 35_562},
	{"a reader twice", Config{Clients: twiceAndOnce(reader, lock)}, 36_510},
	{"a writer twice, and a reader", Config{Clients: twiceAndOnce(lock, reader)}, 39_705},
	{"a lock twice, taken over", Config{Clients: twiceAndOnce(lock, lock), Takeovers: true}, 747_289},
	{"two of one session", Config{Clients: []Client{{Wants: []Want{lock, lock}}, {Wants: []Want{lock}}}}, 31_943},
	{"one lock twice, two copies", Config{Clients: alike(1, lock, lock), Copies: 2}, 3_210},
	{"one lock twice, taken over, a copy", Config{Clients: alike(1, lock, lock), Takeovers: true, Copies: 1}, 5_261},
	{"one lock twice, everything", Config{Clients: alike(1, lock, lock), Takeovers: true, Copies: 1, Deletes: 1, Losses: 1, Restores: 1, NoSpace: true}, 27_941},
	{"two locks twice", Config{Clients: alike(2, lock, lock)}, 263_078},
}

// rule: A1
func TestNumbersThatAreUsedAgainAreSafe(t *testing.T) {
	for _, conf := range reused {
		t.Run(conf.name, func(t *testing.T) {
			fits(t, conf.states)
			conf.c.Reuse = true
			states, bad := Explore(conf.c)
			require.Nil(t, bad)
			assert.Equal(t, conf.states, states)
		})
	}
}

// rule: A1, A3, C1
func TestEachConditionOfReuseIsNeeded(t *testing.T) {
	var (
		locks   = Config{Clients: twiceAndOnce(lock, lock)}
		copies  = Config{Clients: twiceAndOnce(lock, lock), Copies: 1}
		losses  = Config{Clients: twiceAndOnce(lock, lock), Losses: 1}
		restore = Config{Clients: twiceAndOnce(lock, lock), Restores: 1}
		taken   = Config{Clients: twiceAndOnce(lock, lock), Takeovers: true}
	)
	const (
		keyless    = "somebody believes to hold whose key is not there"
		notFirst   = "somebody believes to hold who is not first"
		older      = "somebody believes to hold whose key has the value of an older acquisition"
		refused    = "an enqueue was refused because of an older one's cancel key"
		notGreater = "a token was not greater than those before"
		marked     = "a number was used again that has the mark of an eviction"
		deadlock   = "deadlock"
	)
	for name, of := range map[string]struct {
		rules  Rules
		in     Config
		breaks string
	}{
		"1: an answer beside a second copy":               {Rules{CopyIsAnswered: true}, copies, deadlock},
		"1: a number after a lost answer":                 {Rules{ReuseDoubtful: true}, locks, refused},
		"2: a number after a deletion that found nothing": {Rules{ReuseUnknown: true}, losses, marked},
		"3: a removal by name":                            {Rules{RemoveByName: true}, locks, keyless},
		"3: a release by name":                            {Rules{ReleaseByName: true}, locks, keyless},
		"4: a number of a predecessor":                    {Rules{ReuseInherited: true}, taken, refused},
		"5: an entry by its number":                       {Rules{EntryByNumber: true}, locks, keyless},
		"6: a free number without its revision":           {Rules{FreeAtAnyTime: true}, restore, notGreater},
		"6: a key with an older value":                    {Rules{OlderValueIsOurs: true}, copies, older},
		"6: an older key is left":                         {Rules{KeyIsRefusal: true}, copies, deadlock},
		"a predecessor by name":                           {Rules{PredByName: true}, locks, deadlock},
		"an enqueue around its session's keys":            {Rules{ReuseAround: true}, copies, notFirst},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of.in.Reuse, of.in.Rules = true, of.rules
			_, bad := Explore(of.in)
			require.NotNil(t, bad, "the rule is not needed, or the model does not see why")
			t.Log(bad)
			assert.Equal(t, of.breaks, bad.Property)
		})
	}
}
