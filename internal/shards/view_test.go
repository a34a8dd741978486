package shards

import (
	"testing"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestAViewIsComparedWithWhatAReadFound(t *testing.T) {
	k, err := keys.NewShards("", "jobs")
	require.NoError(t, err)
	member, wish, undecodable := k.Member(4, 1), k.Wish(1), k.Member(4, 2)
	v := NewView(k, 4)
	v.Apply(Event{Key: member, Value: Member{Weight: 1}.Encode(), Create: 5, Mod: 5})
	v.Apply(Event{Key: wish, Create: 5, Mod: 6})
	v.Apply(Event{Key: undecodable, Value: []byte("{"), Create: 7, Mod: 7})
	v.Apply(Event{Key: k.Wish(3), Create: 8, Mod: 8})
	v.Apply(Event{Key: k.Wish(3), Deleted: true, Mod: 9})
	rest := []Event{{Key: k.Member(5, 4), Mod: 3}, {Key: k.Prefix + "m/what", Mod: 4}, {Key: k.Planner().Prefix + "1-1", Mod: 10}}
	for name, c := range map[string]struct {
		read []Event
		odd  map[string]int64
	}{
		"the same":            {[]Event{{Key: member, Mod: 5}, {Key: wish, Mod: 6}, {Key: undecodable, Mod: 7}}, map[string]int64{}},
		"an earlier read":     {[]Event{{Key: member, Mod: 5}, {Key: wish, Mod: 5}, {Key: undecodable, Mod: 7}}, map[string]int64{}},
		"a later wish":        {[]Event{{Key: member, Mod: 5}, {Key: wish, Mod: 11}, {Key: undecodable, Mod: 7}}, map[string]int64{wish: 6}},
		"a later member key":  {[]Event{{Key: member, Mod: 11}, {Key: wish, Mod: 6}, {Key: undecodable, Mod: 7}}, map[string]int64{member: 5}},
		"one more":            {[]Event{{Key: member, Mod: 5}, {Key: wish, Mod: 6}, {Key: undecodable, Mod: 7}, {Key: k.Wish(3), Mod: 11}}, map[string]int64{k.Wish(3): 0}},
		"gone":                {[]Event{{Key: undecodable, Mod: 7}}, map[string]int64{member: 5, wish: 6}},
		"one for another one": {[]Event{{Key: member, Mod: 5}, {Key: wish, Mod: 6}, {Key: k.Member(4, 3), Mod: 11}}, map[string]int64{undecodable: 7, k.Member(4, 3): 0}},
	} {
		assert.Equal(t, c.odd, v.Odd(append(rest, c.read...)), name)
	}
}
