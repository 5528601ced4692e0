package lease

import (
	"cmp"
	"slices"
)

// moves are the shards that a replica takes and gives up.
type moves struct {
	take, give []int
	short      bool // the replica's part has more shards than it can take now
}

// balance returns the shards that the member me takes and gives up, so that the numbers of shards of all
// members differ by at most one. holders has the holder of each shard, and "" for a shard that can be
// taken. Members that have the same view choose different shards. As few shards as possible move.
func balance(me string, members, holders []string) moves {
	counts := map[string]int{}
	for _, holder := range holders {
		counts[holder]++
	}
	members = slices.Clone(members)
	// The members with the most shards get the remainder of the division, so that these shards do not move.
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
			move.give = mine[min(target, len(mine)):] // keeps the first shards, and so shard 0
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
