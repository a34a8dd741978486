package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// List says of each entry how it holds, and of a set which names are in it; BUSY says who is
// in the way.
func TestListSaysHowEachEntryHolds(t *testing.T) {
	t.Parallel()
	p := start(t, ofShared(t), "")
	p.warm()
	acquire := func(id int, more object) object {
		body := object{"session": hex32(1), "requestId": hex32(id), "waitMs": 5000, "owner": "me"}
		for k, v := range more {
			body[k] = v
		}
		return p.call("Acquire", body)
	}
	held := acquire(1, object{"names": []string{"a", "b"}, "modes": []string{"EXCLUSIVE", "SHARED"}})
	assert.Equal(t, "HELD", held["state"])
	assert.Len(t, lockOf(held)["keys"], 2)
	assert.Equal(t, "HELD", acquire(2, object{"names": []string{"b"}, "mode": "SHARED"})["state"])
	assert.Equal(t, "HELD", acquire(3, object{"names": []string{"e"}, "mode": "ELECTION", "value": "eA==", "owner": ""})["state"])

	modes, sets := object{}, object{}
	for _, q := range p.call("List", object{})["queues"].([]any) {
		for _, e := range q.(object)["entries"].([]any) {
			name := q.(object)["name"].(string)
			modes[name] = e.(object)["mode"]
			if sets[name] == nil {
				sets[name] = e.(object)["names"]
			}
		}
	}
	assert.Equal(t, object{"a": "exclusive", "b": "shared", "e": "exclusive"}, modes)
	assert.Equal(t, object{"a": []any{"a", "b"}, "b": []any{"a", "b"}, "e": nil}, sets)

	slots := object{}
	for id := 10; id < 12; id++ {
		l := lockOf(acquire(id, object{"names": []string{"s"}, "mode": "SEMAPHORE", "limit": 2}))
		slot, _ := l["slot"].(float64)
		slots[fmt.Sprint(slot)] = l["state"]
	}
	assert.Equal(t, object{"0": "HELD", "1": "HELD"}, slots)
	assert.Equal(t, "BUSY", acquire(12, object{"names": []string{"s"}, "mode": "SEMAPHORE", "limit": 2, "try": true})["state"])
	assert.Empty(t, p.call("Leader", object{"name": "s"})["token"], "who holds a slot leads nothing")
	assert.Equal(t, "HELD", acquire(13, object{"names": []string{"s"}, "mode": "EXCLUSIVE", "try": true})["state"], "a lock of this name is another matter")
	var both [][]any
	for _, q := range p.call("List", object{"name": "s"})["queues"].([]any) {
		both = append(both, nil)
		for _, e := range q.(object)["entries"].([]any) {
			both[len(both)-1] = append(both[len(both)-1], e.(object)["mode"])
		}
	}
	assert.Equal(t, [][]any{{"exclusive"}, {"semaphore", "semaphore"}}, both)

	owner := fmt.Sprintf(`uid:%d "me"`, os.Getuid())
	for name, more := range map[string]object{
		"the second name":               {"names": []string{"x", "b"}, "mode": "EXCLUSIVE"},
		"a shared one, by an exclusive": {"names": []string{"b", "a"}, "mode": "SHARED"},
	} {
		more["try"] = true
		got := acquire(len(name), more)
		assert.Equal(t, "BUSY", got["state"], name)
		assert.Equal(t, owner, got["holder"], name)
	}
}

// The policy holds for the names that a set has beside the one that is listed.
func TestListNamesNothingOfASetThatThePolicyForbids(t *testing.T) {
	t.Parallel()
	etcd := ofShared(t)
	all := start(t, etcd, "")
	all.acquire(object{"session": hex32(1), "requestId": hex32(1), "names": []string{"orders/1", "secret/1"}, "mode": "EXCLUSIVE", "waitMs": 5000})
	policy := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(policy, fmt.Appendf(nil, "uid:%d orders/\n", os.Getuid()), 0o600))
	p := start(t, etcd, "", "--policy", policy)
	queues := p.call("List", object{})["queues"].([]any)
	require.Len(t, queues, 1)
	entry := queues[0].(object)["entries"].([]any)[0].(object)
	assert.Equal(t, []any{"orders/1"}, entry["names"])
	assert.Equal(t, true, entry["mine"])
}
