package lease

import (
	"cmp"
	"slices"
)

// moves are the shards that a replica takes and gives up.
type moves struct {
	take, give []int
	short      bool // it is to have more shards than can be taken now
}

// balance returns what a member takes and gives up, so that all members have the same number of
// shards, or one more. holders has the holder of each shard, and "" for one that can be taken. Members
// that have the same view choose different shards. As few shards as possible move.
func balance(me string, members, holders []string) moves {
	counts := map[string]int{}
	for _, holder := range holders {
		counts[holder]++
	}
	members = slices.Clone(members)
	// Those that hold the most keep one more than the others, so that it does not have to move.
	slices.SortFunc(members, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	var move moves
	free := shardsOf("", holders)
	for i, member := range members {
		target := len(holders) / len(members)
		if i < len(holders)%len(members) {
			target++
		}
		wanted := min(max(target-counts[member], 0), len(free))
		if member == me {
			move.take = free[:wanted]
			move.short = counts[me]+wanted < target
			mine := shardsOf(me, holders)
			move.give = mine[min(target, len(mine)):] // keeps shard 0, if it has it
		}
		free = free[wanted:]
	}
	return move
}

// shardsOf returns the shards of a holder, in order.
func shardsOf(holder string, holders []string) []int {
	var all []int
	for shard, h := range holders {
		if h == holder {
			all = append(all, shard)
		}
	}
	return all
}
