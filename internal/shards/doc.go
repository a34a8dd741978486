// Package shards decides, without I/O, which worker works on which shards of a name. Package shard
// makes the requests and calls the work.
//
// [Plan] distributes shards among members. A [Planner] decides when that is done, and which wishes are
// written. A [Worker] decides how one worker follows its wish: what it queues for, and what it gives
// up. None of them decides who holds a shard. Only the queue of the shard's lock does, so that no
// mistake made here, and no wish, however stale or absurd, can give a shard to two workers.
//
// Nothing here reads a clock: where the time matters, it is an argument.
package shards
