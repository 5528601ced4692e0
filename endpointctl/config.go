package endpointctl

import (
	"errors"
	"fmt"
	"time"

	"portolan.dev/services/daemon"
	"portolan.dev/services/spec"
)

// Config is the configuration of the daemon.
type Config struct {
	daemon.Common `default:"addr=127.0.0.1:7402 http-addr=127.0.0.1:7502"`

	Registry string `flag:"registry" default:"127.0.0.1:7400" usage:"host:port of the registry's gRPC API; several, comma separated"`

	MaxPerSlice    int           `flag:"max-endpoints-per-slice" default:"100" usage:"maximum number of endpoints in a slice, 1-1000"`
	Workers        int           `flag:"workers" default:"256" usage:"number of services that are synced concurrently, in each shard; their writes share calls to the registry"`
	Quiet          time.Duration `flag:"quiet" default:"20ms" usage:"time without changes of a service before its endpoints are written"`
	LongestDelay   time.Duration `flag:"longest-delay" default:"500ms" usage:"maximum delay of the endpoints of a service that changes all the time"`
	LegacyInterval time.Duration `flag:"endpoints-interval" default:"1s" usage:"shortest time between two writes of the Endpoints of a service; its EndpointSlices are not delayed by it"`
	Identity       string        `flag:"identity" usage:"name of this replica in the lease, unique among the running replicas; a replica that restarts with the same name takes its lease back at once; default: host name and a random part"`
	LeaseName      string        `flag:"lease-name" default:"endpointctl" usage:"name of the replicas' Lease, in the namespace default: endpointctl, or a name that begins with endpointctl-"`
	Shards         int           `flag:"shards" default:"1" usage:"number of shards into which the services are divided among the replicas, 1-64; the same for all replicas; 1: one replica leads"`
	LeaseDuration  time.Duration `flag:"lease-duration" default:"5s" usage:"time after which the leader's Lease ends unless it is renewed; at least 1s"`
	NodeGrace      time.Duration `flag:"node-grace" default:"10s" usage:"time without heartbeats after which a node is not ready; 0: never"`
}

// Validate returns all errors of the configuration, joined.
func (c *Config) Validate() error {
	errs := []error{c.Common.Validate()}
	check := func(ok bool, text string) {
		if !ok {
			errs = append(errs, errors.New(text))
		}
	}
	check(c.MaxPerSlice >= 1 && c.MaxPerSlice <= 1000, "max-endpoints-per-slice: must be 1-1000")
	check(c.Workers >= 1, "workers: must be at least 1")
	check(c.Quiet >= 0 && c.LongestDelay >= c.Quiet, "quiet and longest-delay: must not be negative, and quiet not the longer one")
	check(c.LegacyInterval >= 0, "endpoints-interval: must not be negative")
	check(c.LeaseDuration >= time.Second, "lease-duration: must be at least 1s")
	check(c.Shards >= 1 && c.Shards <= spec.MaxControllerShards, fmt.Sprintf("shards: must be 1-%d", spec.MaxControllerShards))
	check(spec.IsControllerLeaseName(c.LeaseName), "lease-name: must be endpointctl, or begin with endpointctl-, because the controller may write no other Lease")
	check(c.NodeGrace >= 0, "node-grace: must not be negative")
	return errors.Join(errs...)
}
