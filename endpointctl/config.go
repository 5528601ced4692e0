package endpointctl

import (
	"errors"
	"time"

	"portolan.dev/services/daemon"
)

// Config is the configuration of the daemon.
type Config struct {
	daemon.Common `default:"addr=127.0.0.1:7402 http-addr=127.0.0.1:7502"`

	Registry string `flag:"registry" default:"127.0.0.1:7400" usage:"host:port of the registry's gRPC API; several, comma separated"`

	MaxPerSlice   int           `flag:"max-endpoints-per-slice" default:"100" usage:"maximum number of endpoints in a slice, 1-1000"`
	Workers       int           `flag:"workers" default:"16" usage:"number of services that are synced concurrently"`
	Quiet         time.Duration `flag:"quiet" default:"20ms" usage:"time without changes of a service before its endpoints are written"`
	LongestDelay  time.Duration `flag:"longest-delay" default:"500ms" usage:"maximum delay of the endpoints of a service that changes all the time"`
	Identity      string        `flag:"identity" usage:"name of this replica in the lease, unique among the running replicas; a replica that restarts with the same name takes its lease back at once; default: host name and a random part"`
	LeaseName     string        `flag:"lease-name" default:"endpointctl" usage:"name of the replicas' Lease, in the namespace default"`
	LeaseDuration time.Duration `flag:"lease-duration" default:"5s" usage:"time after which the leader's Lease ends unless it is renewed; at least 1s"`
	NodeGrace     time.Duration `flag:"node-grace" default:"10s" usage:"time without heartbeats after which a node is not ready; 0: never"`
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
	check(c.LeaseDuration >= time.Second, "lease-duration: must be at least 1s")
	check(c.LeaseName != "", "lease-name: is required")
	check(c.NodeGrace >= 0, "node-grace: must not be negative")
	return errors.Join(errs...)
}
