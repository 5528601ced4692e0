package spec_test

import (
	"fmt"
	"testing"

	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

func TestShardOfAServiceNeverChanges(t *testing.T) {
	for _, test := range []struct {
		namespace, name string
		shards, want    int
	}{
		{"default", "web", 1, 0},
		{"default", "web", 2, 1},
		{"default", "web", 4, 3},
		{"default", "web", 64, 59},
		{"shop", "web", 4, 0},
		{"default", "db", 4, 1},
		{"default", "db", 7, 0},
	} {
		if got := spec.ControllerShard(object.Name{Namespace: test.namespace, Name: test.name}, test.shards); got != test.want {
			t.Errorf("%s/%s is in shard %d of %d, want %d", test.namespace, test.name, got, test.shards, test.want)
		}
	}
}

func TestShardsAreOfSimilarSize(t *testing.T) {
	const services = 10_000
	for _, shards := range []int{2, 3, 4, 8, 16, 64} {
		sizes := make([]int, shards)
		for i := range services {
			sizes[spec.ControllerShard(object.Name{Namespace: fmt.Sprint("team-", i%20), Name: fmt.Sprint("web-", i)}, shards)]++
		}
		for shard, size := range sizes {
			// The standard deviation of a random division is about the square root of the size.
			if mean := services / shards; size < mean*6/10 || size > mean*14/10 {
				t.Errorf("shard %d of %d has %d services, the mean is %d", shard, shards, size, mean)
			}
		}
	}
}

func TestLeasesOfShardsAreTheControllers(t *testing.T) {
	for _, name := range []string{
		spec.ControllerShardLease(spec.ControllerLease, 0), spec.ControllerShardLease(spec.ControllerLease, 3), spec.ControllerMemberLease("endpointctl-b", 0),
	} {
		if !spec.IsControllerLeaseName(name) {
			t.Errorf("the controller may not write its Lease %s", name)
		}
	}
	if got := spec.ControllerShardLease(spec.ControllerLease, 0); got != spec.ControllerLease {
		t.Errorf("the Lease of shard 0 is %s", got)
	}
}
