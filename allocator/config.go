package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"portolan.dev/services/daemon"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/pool"
)

// Config is the configuration of the daemon. Its ranges create pools. A pool that lies within a
// range is enlarged to it. A start never makes a pool smaller or removes it.
type Config struct {
	daemon.Common `default:"addr=127.0.0.1:7401 http-addr=127.0.0.1:7501"`

	Registry    string         `flag:"registry" default:"127.0.0.1:7400" usage:"host:port of the registry's gRPC API; several, comma separated"`
	Store       string         `flag:"store" usage:"store of the allocations: sqlite:FOLDER (one replica) or postgres://USER@HOST/DATABASE (several); empty: sqlite in data-dir; a password is refused on the command line"`
	StoreFile   string         `flag:"store-file" usage:"file with the store's URL, instead of store"`
	DataDir     string         `flag:"data-dir" default:".portolan/allocator" usage:"folder of the embedded store"`
	ServiceCIDR []netip.Prefix `flag:"service-cidr" default:"10.96.0.0/16" usage:"ranges of virtual IPs of a new installation, at most one of each family"`
	PodCIDR     []netip.Prefix `flag:"pod-cidr" usage:"ranges of pod addresses, if Portolan allocates them"`

	NodePortRange    string         `flag:"node-port-range" default:"30000-32767" usage:"range of node ports"`
	LoadBalancerPool []netip.Prefix `flag:"load-balancer-pool" usage:"ranges of load-balancer addresses"`
	ReuseDelay       time.Duration  `flag:"rest" default:"5m" usage:"time before a released value is allocated again while others are free"`
	VerifyGrace      time.Duration  `flag:"verify-grace" default:"60s" usage:"time without an owner after which a value is freed"`
	VerifyInterval   time.Duration  `flag:"verify-interval" default:"20s" usage:"interval of comparisons with the registry"`
}

// ReadStoreFile sets the store to the content of the configured file. Without a file it does nothing.
func (c *Config) ReadStoreFile() error {
	return daemon.ReadStoreFile(&c.Store, &c.StoreFile)
}

// StoreLocation returns the kind of the configured store, [daemon.SQLite] or [daemon.Postgres], and
// its location: a folder or a DSN. The store's file must have been read before.
func (c *Config) StoreLocation() (kind, where string, err error) {
	if c.Store == "" {
		return daemon.SQLite, c.DataDir, nil
	}
	return daemon.StoreLocation(c.Store)
}

// DataFolder returns the folder of the embedded store, or "" if the store is another one.
func (c *Config) DataFolder() string {
	if kind, where, err := c.StoreLocation(); err == nil && kind == daemon.SQLite && c.StoreFile == "" {
		return where
	}
	return ""
}

// Validate returns an error that lists everything that is wrong with the configuration.
func (c *Config) Validate() error {
	errs := []error{c.Common.Validate()}
	if c.StoreFile == "" { // the file may exist only while the daemon runs, as a credential of systemd
		_, _, err := c.StoreLocation()
		errs = append(errs, err)
	}
	errs = append(errs, c.checkRanges()...)
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

// checkRanges returns an error for each range that is malformed or that no object can have addresses of.
func (c *Config) checkRanges() (errs []error) {
	local := false
	for _, r := range c.ranges() { // load balancers come after virtual IPs and pods
		space, err := pool.Parse(r.text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.flag, err))
			continue
		}
		if space.IsAddresses() == r.ports {
			errs = append(errs, fmt.Errorf("%s: %s is of the wrong kind", r.flag, r.text))
		}
		local = local || allocation.IsLocal(r.use, space)
		if why := allocation.Unusable(r.use, space, local); why != "" {
			errs = append(errs, fmt.Errorf("%s: %s", r.flag, why))
		}
	}
	return errs
}
