package demo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/shard"
)

const (
	shardsName = "orders"
	demoShards = 12
)

// shards runs the third part: workers share shards out, one is killed, and another one comes.
func (d *demo) shards(ctx context.Context) (shown string, err error) {
	d.print("\n3. Four workers share out %d shards. One is killed (SIGKILL), and later another one comes.", demoShards)
	workers := map[string]*worker{}
	names := []string{"kim", "lee", "max", "nia"}
	for _, who := range names {
		args := []string{"--shards", strconv.Itoa(demoShards)}
		if who == "lee" {
			args = append(args, "--ttl", demoTTL.String())
		}
		if workers[who], err = d.hire(who, shardsName, args...); err != nil {
			return "", err
		}
	}
	first, err := d.shared(ctx, names)
	if err != nil {
		return "", err
	}
	killed := time.Now()
	if err := workers["lee"].cmd.Process.Kill(); err != nil {
		return "", err
	}
	<-workers["lee"].exited
	d.line(killed, "lee", 0, "is killed; its lease lasts for %v", demoTTL)
	second, err := d.shared(ctx, []string{"kim", "max", "nia"})
	if err != nil {
		return "", err
	}
	after := time.Since(killed)
	if workers["oda"], err = d.hire("oda", shardsName, "--shards", strconv.Itoa(demoShards)); err != nil {
		return "", err
	}
	d.line(time.Now(), "oda", 0, "comes, process %d", workers["oda"].cmd.Process.Pid)
	third, err := d.shared(ctx, []string{"kim", "max", "nia", "oda"})
	if err != nil {
		return "", err
	}
	died, err := checkMoves(first, second)
	if err != nil {
		return "", err
	}
	came, err := checkMoves(second, third)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("  - the shards of a worker that was killed had others %.1f s later: %d moved, %d stayed where they were.\n"+
		"  - a worker that came got its share: %d moved, %d stayed. Every shard that moved has a greater token than before.\n",
		after.Seconds(), died, demoShards-died, came, demoShards-came), nil
}

// shared waits until these workers, and no others, share out the shards evenly, prints who has
// what, and returns the owners.
func (d *demo) shared(ctx context.Context, names []string) ([]shard.Owner, error) {
	for t, err := range shard.Observe(ctx, d.client, shardsName) {
		if err != nil {
			return nil, fmt.Errorf("waiting for %v to share the shards out: %w", names, err)
		}
		has, even := evenly(t, names)
		if !even {
			continue
		}
		now := time.Now()
		for _, who := range names {
			d.line(now, who, 0, "has shards %v", has[who])
		}
		return t.Shards, nil
	}
	return nil, context.Cause(ctx)
}

// evenly is who has which shards. It also reports whether that is final: all shards are shared out
// evenly among names, and nobody waits for one.
func evenly(t shard.Table, names []string) (has map[string][]int, even bool) {
	has = map[string][]int{}
	even = len(t.Shards) == demoShards && len(t.Members) == len(names)
	for i, s := range t.Shards {
		who := string(s.Value)
		has[who] = append(has[who], i)
		even = even && s.Token != 0 && s.Next == 0 && slices.Contains(names, who)
	}
	for _, who := range names {
		even = even && len(has[who]) == demoShards/len(names)
	}
	return has, even
}

// checkMoves checks the tokens of those shards that have another owner than before, and returns
// how many have.
func checkMoves(before, after []shard.Owner) (moved int, err error) {
	for i := range before {
		if was, is := before[i], after[i]; was.Lease != is.Lease {
			moved++
			if is.Token <= was.Token {
				return 0, fmt.Errorf("shard %d has token %d, not above %d before it", i, is.Token, was.Token)
			}
		}
	}
	return moved, nil
}

// runShards works on the shards of the name until the process ends.
func (c contender) runShards(ctx context.Context) error {
	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{c.endpoint}})
	if err != nil {
		return err
	}
	defer client.Close()
	opts := shard.Options{Value: []byte(c.worker), Session: lease.Options{TTL: c.ttl, Owner: c.worker}}
	return shard.Run(ctx, client, c.name, c.shards, opts, func(ctx context.Context, _ *shard.Held) error {
		<-ctx.Done()
		return nil
	})
}
