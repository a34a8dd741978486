package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/shard"
)

var came = []string{"a", "b"}

// goodLog is what two contenders with two rounds each leave.
func goodLog() []write {
	return []write{{"a", 5, 0, 1}, {"b", 7, 1, 2}, {"a", 9, 2, 3}, {"b", 12, 3, 4}}
}

func TestQueueCheckAcceptsWhatIsRight(t *testing.T) {
	assert.NoError(t, checkQueue(goodLog(), 4, came, 2))
}

func TestQueueCheckFindsWhatIsWrong(t *testing.T) {
	for what, breakIt := range map[string]func(log []write, value *int64) []write{
		"lost write":        func(log []write, v *int64) []write { *v = 3; return log[:3] },
		"lost increment":    func(log []write, v *int64) []write { log[2].Was, log[2].Became = 1, 2; return log },
		"counter differs":   func(log []write, v *int64) []write { *v = 3; return log },
		"token goes back":   func(log []write, v *int64) []write { log[2].Token = 6; return log },
		"token twice":       func(log []write, v *int64) []write { log[2].Token = 7; return log },
		"out of turn":       func(log []write, v *int64) []write { log[0].Worker, log[1].Worker = "b", "a"; return log },
		"stranger":          func(log []write, v *int64) []write { log[3].Worker = "c"; return log },
		"one too often":     func(log []write, v *int64) []write { log[3].Worker = "a"; return log },
		"nothing at all":    func(log []write, v *int64) []write { *v = 0; return nil },
		"does not add one":  func(log []write, v *int64) []write { log[3].Became = 5; *v = 5; return log },
		"token is no token": func(log []write, v *int64) []write { log[0].Token = 0; return log },
	} {
		value := int64(4)
		log := breakIt(goodLog(), &value)
		assert.Error(t, checkQueue(log, value, came, 2), what)
	}
}

// goodPause is what the second part leaves.
func goodPause() paused {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	return paused{
		ttl: 3 * time.Second, stopped: at(0), continued: at(4),
		first:       fact{Worker: "f", At: at(0), Token: 46, Was: 15, Deadline: at(2.5)},
		second:      fact{Worker: "g", At: at(3.2), Token: 48},
		secondWrote: fact{Worker: "g", Token: 48, Was: 15, Became: 16},
		woke:        fact{Worker: "f", At: at(4.1), Token: 46, Err: "lost", Lost: true},
		refused:     fact{Worker: "f", Token: 46, Err: "stale", Stale: true, Highest: 48},
		logged:      []write{{"g", 48, 15, 16}},
		value:       16,
	}
}

func TestPauseCheckAcceptsWhatIsRight(t *testing.T) {
	assert.NoError(t, checkPaused(goodPause()))
}

func TestPauseCheckFindsWhatIsWrong(t *testing.T) {
	for what, breakIt := range map[string]func(p *paused){
		"stopped too briefly":     func(p *paused) { p.continued = p.stopped.Add(3 * time.Second) },
		"token not above":         func(p *paused) { p.second.Token = 46 },
		"next one too early":      func(p *paused) { p.second.At = p.first.Deadline },
		"first check says held":   func(p *paused) { p.woke.Lost, p.woke.Err = false, "" },
		"looked before it woke":   func(p *paused) { p.woke.At = p.stopped },
		"late write not refused":  func(p *paused) { p.refused.Stale = false },
		"refused for another":     func(p *paused) { p.refused.Highest = fencing.Token(50) },
		"late write in the store": func(p *paused) { p.logged = append(p.logged, write{"f", 46, 15, 16}) },
		"second write missing":    func(p *paused) { p.logged = nil },
		"counter differs":         func(p *paused) { p.value = 17 },
	} {
		p := goodPause()
		breakIt(&p)
		assert.Error(t, checkPaused(p), what)
	}
}

func TestSharesAreEvenAndFinal(t *testing.T) {
	names := []string{"a", "b"}
	good := func() shard.Table {
		t := shard.Table{Members: make([]shard.Member, 2)}
		for i := range demoShards {
			t.Shards = append(t.Shards, shard.Owner{Lease: 1, Token: 7, Value: []byte(names[i%2])})
		}
		return t
	}
	has, even := evenly(good(), names)
	assert.True(t, even)
	assert.Equal(t, []int{1, 3, 5, 7, 9, 11}, has["b"])
	for what, breakIt := range map[string]func(t *shard.Table){
		"nobody":        func(t *shard.Table) { t.Shards = nil },
		"one free":      func(t *shard.Table) { t.Shards[3].Token = 0 },
		"one moves":     func(t *shard.Table) { t.Shards[3].Next = 5 },
		"uneven":        func(t *shard.Table) { t.Shards[3].Value = []byte("a") },
		"a stranger":    func(t *shard.Table) { t.Shards[3].Value = []byte("c") },
		"another lives": func(t *shard.Table) { t.Members = make([]shard.Member, 3) },
	} {
		table := good()
		breakIt(&table)
		_, even := evenly(table, names)
		assert.False(t, even, what)
	}
}

func TestMovesCheckFindsATokenThatDoesNotGrow(t *testing.T) {
	before := []shard.Owner{{Lease: 1, Token: 5}, {Lease: 2, Token: 6}}
	moved, err := checkMoves(before, []shard.Owner{{Lease: 1, Token: 5}, {Lease: 3, Token: 9}})
	assert.NoError(t, err)
	assert.Equal(t, 1, moved)
	_, err = checkMoves(before, []shard.Owner{{Lease: 1, Token: 5}, {Lease: 3, Token: 6}})
	assert.Error(t, err)
}
