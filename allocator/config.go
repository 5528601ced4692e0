package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"portolan.dev/services/daemon"

	"portolan.dev/allocator/pool"
)

// Config is the configuration of the daemon. Its ranges create pools. A pool that lies within a
// range is enlarged to it. A start never makes a pool smaller or removes it.
type Config struct {
	daemon.Common `default:"addr=127.0.0.1:7401 http-addr=127.0.0.1:7501"`

	Registry    string         `flag:"registry" default:"127.0.0.1:7400" usage:"host:port of the registry's gRPC API; several, comma separated"`
	DataDir     string         `flag:"data-dir" default:".portolan/allocator" usage:"folder of the embedded store"`
	ServiceCIDR []netip.Prefix `flag:"service-cidr" default:"10.96.0.0/16" usage:"ranges of virtual IPs of a new installation, at most one of each family"`
	PodCIDR     []netip.Prefix `flag:"pod-cidr" usage:"ranges of pod addresses, if Portolan allocates them"`

	NodePortRange    string         `flag:"node-port-range" default:"30000-32767" usage:"range of node ports"`
	LoadBalancerPool []netip.Prefix `flag:"load-balancer-pool" usage:"ranges of load-balancer addresses"`
	ReuseDelay       time.Duration  `flag:"rest" default:"5m" usage:"time before a released value is allocated again while others are free"`
	VerifyGrace      time.Duration  `flag:"verify-grace" default:"60s" usage:"time without an owner after which a value is freed"`
	VerifyInterval   time.Duration  `flag:"verify-interval" default:"20s" usage:"interval of comparisons with the registry"`
}

// Validate returns an error that lists everything that is wrong with the configuration.
func (c *Config) Validate() error {
	errs := []error{c.Common.Validate()}
	for _, r := range c.ranges() {
		space, err := pool.Parse(r.text)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", r.flag, err))
		case space.IsAddresses() == r.ports:
			errs = append(errs, fmt.Errorf("%s: %s is of the wrong kind", r.flag, r.text))
		}
	}
	if len(c.ServiceCIDR) == 0 {
		errs = append(errs, errors.New("service-cidr: at least one range is required"))
	}
	if c.ReuseDelay < 0 {
		errs = append(errs, errors.New("rest: must not be negative"))
	}
	if c.VerifyGrace <= 0 || c.VerifyInterval <= 0 {
		errs = append(errs, errors.New("verify-grace and verify-interval: must be positive"))
	}
	return errors.Join(errs...)
}
