package registry

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/spec"
)

// Config is the configuration of the registry.
type Config struct {
	daemon.Common `default:"addr=127.0.0.1:7400 http-addr=127.0.0.1:7500"`

	Allocator   string         `flag:"allocator" default:"127.0.0.1:7401" usage:"host:port of the allocator's gRPC API; several, comma separated"`
	Store       string         `flag:"store" default:"sqlite:.portolan/registry" usage:"store of the objects: sqlite:FOLDER (one replica) or postgres://USER:PASSWORD@HOST/DATABASE"`
	ServiceCIDR []netip.Prefix `flag:"service-cidr" default:"10.96.0.0/16" usage:"ranges of virtual IPs, as the allocator has them; the first one's family is the default"`
	PodCIDR     []netip.Prefix `flag:"pod-cidr" usage:"ranges of pod addresses, if the installation allocates them"`
	Zone        string         `flag:"zone" default:"cluster.local" usage:"DNS zone"`

	LoopbackEndpoints []netip.Prefix `flag:"loopback-endpoints" usage:"loopback ranges that backends may have addresses in; only for an installation on one machine"`
	LogRetention      int64          `flag:"log-retention" default:"100000" usage:"changes that can be resumed from"`
	WatchBuffer       int            `flag:"watch-buffer" default:"10000" usage:"number of changes of each kind by which a watcher may lag"`
	WatchMemory       int            `flag:"watch-memory" default:"64" usage:"memory for the changes kept for watchers, of all kinds together, in MiB"`
	BookmarkInterval  time.Duration  `flag:"bookmark-interval" default:"5s" usage:"interval of bookmarks on a watch without changes"`
	EventTTL          time.Duration  `flag:"event-ttl" default:"1h" usage:"time for which an event is kept after its last occurrence"`
	MaxEvents         int            `flag:"max-events" default:"10000" usage:"maximum number of events; the oldest are deleted"`
	ReapInterval      time.Duration  `flag:"reap-interval" default:"10s" usage:"interval of deletions of old events and changes"`
	HeartbeatTimeout  time.Duration  `flag:"heartbeat-timeout" default:"10s" usage:"time without heartbeats after which a node agent is not alive"`
	StreamReplicas    int            `flag:"stream-replicas" default:"1" usage:"replicas of the change stream when it is created"`
}

// Validate returns an error that lists everything that is wrong with the configuration.
func (c *Config) Validate() error {
	errs := []error{c.Common.Validate()}
	if _, _, err := c.StoreLocation(); err != nil {
		errs = append(errs, err)
	}
	if len(c.ServiceCIDR) == 0 {
		errs = append(errs, errors.New("service-cidr: at least one range is required"))
	}
	for _, flag := range []struct {
		name  string
		value int64
	}{
		{"log-retention", c.LogRetention}, {"watch-buffer", int64(c.WatchBuffer)}, {"watch-memory", int64(c.WatchMemory)},
		{"bookmark-interval", int64(c.BookmarkInterval)},
		{"event-ttl", int64(c.EventTTL)}, {"max-events", int64(c.MaxEvents)}, {"reap-interval", int64(c.ReapInterval)},
		{"heartbeat-timeout", int64(c.HeartbeatTimeout)}, {"stream-replicas", int64(c.StreamReplicas)},
	} {
		if flag.value <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be more than nothing", flag.name))
		}
	}
	if problem := spec.DNSSubdomain(c.Zone); problem != "" {
		errs = append(errs, fmt.Errorf("zone: %s", problem))
	}
	return errors.Join(errs...)
}

// Kinds of store, as DiscoveryService returns them.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// StoreLocation returns the kind of the configured store and its location: a folder or a DSN.
func (c *Config) StoreLocation() (kind, where string, err error) {
	if dir, ok := strings.CutPrefix(c.Store, "sqlite:"); ok && dir != "" {
		return SQLite, dir, nil
	}
	if strings.HasPrefix(c.Store, "postgres://") || strings.HasPrefix(c.Store, "postgresql://") || strings.Contains(c.Store, "host=") {
		return Postgres, c.Store, nil
	}
	return "", "", errors.New("store: must be sqlite:FOLDER, postgres://… or host=… dbname=…")
}

// families returns the families of the virtual IPs, the default family first.
func (c *Config) families() []corev1.IPFamily {
	var families []corev1.IPFamily
	seen := map[corev1.IPFamily]bool{}
	for _, cidr := range c.ServiceCIDR {
		family := corev1.IPFamily_IP_FAMILY_IPV4
		if cidr.Addr().Is6() {
			family = corev1.IPFamily_IP_FAMILY_IPV6
		}
		if !seen[family] {
			families = append(families, family)
			seen[family] = true
		}
	}
	return families
}

// settings returns the settings of the installation that DiscoveryService publishes.
func (c *Config) settings() *registryv1.GetSettingsResponse {
	kind, _, _ := c.StoreLocation() //nolint:errcheck // the store is open: its name is right
	return &registryv1.GetSettingsResponse{
		ServiceCidrs: prefixes(c.ServiceCIDR), PodCidrs: prefixes(c.PodCIDR), Zone: c.Zone,
		Version: obs.Version(), Store: kind,
	}
}

func prefixes(list []netip.Prefix) []string {
	texts := make([]string, len(list))
	for i, prefix := range list {
		texts[i] = prefix.String()
	}
	return texts
}
