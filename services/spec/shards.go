package spec

import (
	"fmt"
	"hash/fnv"

	"portolan.dev/services/object"
)

// MaxControllerShards is the largest number of shards of the endpoint controller. Each shard has a
// Lease that is renewed about every second, so more shards would keep the registry busy.
const MaxControllerShards = 64

// ControllerShard returns the shard of a service, from 0 to shards-1. It must return the same shard in all
// releases, because replicas of different releases share the services.
func ControllerShard(service object.Name, shards int) int {
	if shards <= 1 {
		return 0
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(service.String())) // a hash returns no error
	return int(sum.Sum64() % uint64(shards))
}

// ControllerShardLease returns the name of the Lease of a shard. lease is the name of the Lease of
// shard 0, which is the controller's only one if there is one shard.
func ControllerShardLease(lease string, shard int) string {
	if shard == 0 {
		return lease
	}
	return fmt.Sprintf("%s-shard-%d", lease, shard)
}

// ControllerMemberLease returns the name of the Lease by which a replica shows the others that it
// takes shards. There are as many as shards; place counts from 0.
func ControllerMemberLease(lease string, place int) string {
	return fmt.Sprintf("%s-member-%d", lease, place)
}
