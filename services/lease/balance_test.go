package lease

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestBalance(t *testing.T) {
	for _, test := range []struct {
		members, holders string // a letter for each; - for a vacant shard, ? for one that cannot be taken
		me               string
		take, give       []int
		short            bool
	}{
		{members: "a", holders: "----", me: "a", take: []int{0, 1, 2, 3}},
		{members: "ab", holders: "----", me: "a", take: []int{0, 1}},
		{members: "ab", holders: "----", me: "b", take: []int{2, 3}},
		{members: "abc", holders: "----", me: "c", take: []int{3}},
		{members: "ab", holders: "aaaa", me: "a", give: []int{2, 3}},
		{members: "ab", holders: "aaaa", me: "b", short: true},
		{members: "abc", holders: "aabb", me: "a"}, // one of two with the same number gives up a shard
		{members: "abc", holders: "aabb", me: "b", give: []int{3}},
		{members: "abc", holders: "aab-", me: "c", take: []int{3}},
		{members: "abc", holders: "aab-", me: "a"},
		{members: "abc", holders: "abbc", me: "a"},
		{members: "ab", holders: "aaxx", me: "b", short: true}, // x is no member any more, and its leases have not expired
		{members: "ab", holders: "a???", me: "b", short: true},
		{members: "abcde", holders: "abcd", me: "e"},
		{members: "ab", holders: "aaab-", me: "a"},
		{members: "ab", holders: "aaab-", me: "b", take: []int{4}},
	} {
		holders := strings.Split(strings.ReplaceAll(test.holders, "-", " "), "")
		for i, holder := range holders {
			holders[i] = strings.TrimSpace(holder)
		}
		got := balance(test.me, strings.Split(test.members, ""), holders)
		if !slices.Equal(got.take, test.take) || !slices.Equal(got.give, test.give) || got.short != test.short {
			t.Errorf("%s of %s, with %s: take %v, give %v, short %v; want %v, %v, %v",
				test.me, test.members, test.holders, got.take, got.give, got.short, test.take, test.give, test.short)
		}
	}
}

// Members with the same view take different shards, move as few as possible, and are even after two
// rounds.
func TestBalanceReachesItsEndInTwoRounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e", "f"}
		members := names[:rapid.IntRange(1, len(names)).Draw(t, "members")]
		holders := rapid.SliceOfN(rapid.SampledFrom(append([]string{""}, members...)), 1, 16).Draw(t, "holders")
		before := slices.Clone(holders)
		counts := func() (all []int) {
			for _, member := range members {
				all = append(all, len(shardsOf(member, holders)))
			}
			return all
		}
		excess := 0
		for _, n := range counts() {
			excess += max(0, n-(len(holders)+len(members)-1)/len(members))
		}
		given := 0
		for range 2 {
			next := slices.Clone(holders)
			for _, me := range members {
				move := balance(me, members, holders)
				given += len(move.give)
				for _, shard := range move.give {
					next[shard] = ""
				}
				for _, shard := range move.take {
					if next[shard] != "" {
						t.Fatalf("shard %d of %v is taken twice", shard, holders)
					}
					next[shard] = me
				}
			}
			holders = next
		}
		if all := counts(); slices.Max(all)-slices.Min(all) > 1 || len(shardsOf("", holders)) > 0 {
			t.Fatalf("from %v to %v", before, holders)
		}
		// Some members above the mean give up one shard for a member that is below it.
		if given < excess || given > excess+len(members)/2 {
			t.Fatalf("%d shards were given up, from %v to %v, where %d had to be", given, before, holders, excess)
		}
	})
}
