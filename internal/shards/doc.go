// Package shards decides, without I/O, who works on which shards of a name: package shard makes the
// requests and calls the work.
//
// [Plan] shares out shards among members. A [Planner] decides when that is done, and which wishes
// are written. A [Worker] decides what one worker makes of its wish: what it queues for, what it
// gives up, and to whom. Neither decides who holds a shard: that is its lock's queue alone, so that
// no mistake made here, and no wish, however stale or absurd, can give a shard to two.
//
// Time is an argument everywhere.
package shards
