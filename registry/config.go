package registry

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/quota"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/spec"
)

// Config is the configuration of the registry.
type Config struct {
	daemon.Common `default:"addr=127.0.0.1:7400 http-addr=127.0.0.1:7500"`

	Allocator   string         `flag:"allocator" default:"127.0.0.1:7401" usage:"host:port of the allocator's gRPC API; several, comma separated"`
	Store       string         `flag:"store" default:"sqlite:.portolan/registry" usage:"store of the objects: sqlite:FOLDER (one replica) or postgres://USER@HOST/DATABASE; a password is refused on the command line"`
	StoreFile   string         `flag:"store-file" usage:"file with the store's URL, instead of store"`
	ServiceCIDR []netip.Prefix `flag:"service-cidr" default:"10.96.0.0/16" usage:"ranges of virtual IPs, as the allocator has them; the first one's family is the default"`
	PodCIDR     []netip.Prefix `flag:"pod-cidr" usage:"ranges of pod addresses, if the installation allocates them"`
	Zone        string         `flag:"zone" default:"cluster.local" usage:"DNS zone"`
	ExternalIPs []netip.Prefix `flag:"external-ip-ranges" usage:"ranges that services may have externalIPs in; empty: none, because every node takes the traffic for these addresses"`

	NodeAddresses           []netip.Prefix   `flag:"node-address-ranges" usage:"ranges that nodes may have addresses in; empty: all unicast addresses but loopback, link-local, service and pod addresses"`
	ContainerRanges         []netip.Prefix   `flag:"container-ranges" usage:"ranges of the networks that containers have addresses in, on whatever node, such as 172.16.0.0/12 of Docker: a registrar may register pods with addresses in them, in spec.podCIDRs of its node, and with those of its node"`
	LoopbackEndpoints       []netip.Prefix   `flag:"loopback-endpoints" usage:"loopback ranges that backends may have addresses in; only for an installation on one machine"`
	LogRetention            int64            `flag:"log-retention" default:"100000" usage:"changes that can be resumed from"`
	LogBytes                int64            `flag:"log-bytes" default:"256" usage:"size of the changes that can be resumed from, in the store and in NATS, in MiB; beyond it the oldest are deleted early"`
	WatchBuffer             int              `flag:"watch-buffer" default:"10000" usage:"number of changes of each kind by which a watcher may lag"`
	WatchMemory             int              `flag:"watch-memory" default:"64" usage:"memory for the changes kept for watchers, of all kinds together, in MiB"`
	EventTTL                time.Duration    `flag:"event-ttl" default:"1h" usage:"time for which an event is kept after its last occurrence"`
	MaxEvents               int              `flag:"max-events" default:"10000" usage:"maximum number of events; the oldest are deleted"`
	MaxEventBytes           int              `flag:"max-event-bytes" default:"16" usage:"maximum size of all events together, in MiB; the oldest are deleted"`
	MaxEventsPerWriter      int              `flag:"max-events-per-writer" default:"1000" usage:"maximum number of events of one writer, who may have the same share of max-event-bytes; the oldest are deleted"`
	RevocationTTL           time.Duration    `flag:"revocation-ttl" default:"8760h" usage:"time for which a revocation without an expiry is kept; at least the longest lifetime of a certificate"`
	ReapInterval            time.Duration    `flag:"reap-interval" default:"10s" usage:"interval of deletions of old events and changes"`
	AgentWriteRate          int              `flag:"agent-write-rate" default:"50" usage:"writes per second of one node agent, edge or registrar; after a pause, those of 20 s at once"`
	AgentWriteBytes         int              `flag:"agent-write-bytes" default:"128" usage:"size of the objects that one node agent, edge or registrar may write per second, in KiB; after a pause, that of 20 s at once"`
	WorkloadWriteRate       int              `flag:"workload-write-rate" default:"10" usage:"writes per second of the identity of one workload; after a pause, those of 20 s at once"`
	WorkloadWriteBytes      int              `flag:"workload-write-bytes" default:"64" usage:"size of the objects that the identity of one workload may write per second, in KiB; after a pause, that of 20 s at once"`
	MaxPodsPerWorkload      int              `flag:"max-pods-per-workload" default:"250" usage:"maximum number of pods that the identity of one workload has registered"`
	MaxPodsPerRegistrar     int              `flag:"max-pods-per-registrar" default:"1000" usage:"maximum number of pods that the registrar of one node has registered"`
	MaxServicesPerRegistrar int              `flag:"max-services-per-registrar" default:"250" usage:"maximum number of services that one registrar has created on demand, and of namespaces"`
	NamespaceQuotas         []NamespaceQuota `flag:"namespace-quotas" usage:"limits in namespaces, as NAMESPACE:RESOURCE=NUMBER; NAMESPACE may be *, RESOURCE is a kind's plural name, services.nodeports or services.loadbalancers"`
	HeartbeatTimeout        time.Duration    `flag:"heartbeat-timeout" default:"10s" usage:"time without heartbeats after which a node agent is not alive"`

	IssuerCert          string        `flag:"issuer-cert" usage:"file of the certificate (PEM) of the issuer that renews the certificates of daemons, workloads and monitors, from portolan certs init; empty: none are renewed"`
	IssuerKey           string        `flag:"issuer-key" usage:"file of the issuer's private key (PEM)"`
	CertificateLifetime time.Duration `flag:"certificate-lifetime" default:"24h" usage:"lifetime of renewed certificates"`
	CertificateRenewals int           `flag:"certificate-renewals" default:"60" usage:"renewals of one identity in an hour"`

	StreamReplicas int `flag:"stream-replicas" default:"1" usage:"replicas of the change stream when it is created"`
	daemon.Streams

	// BookmarkInterval is the interval of bookmarks on a watch without changes, or 0 for 5 seconds.
	BookmarkInterval time.Duration
}

// Validate returns an error that lists everything that is wrong with the configuration.
func (c *Config) Validate() error {
	errs := []error{c.Common.Validate(), c.Streams.Validate()}
	if c.StoreFile == "" { // the file may exist only while the daemon runs, as a credential of systemd
		_, _, err := c.StoreLocation()
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
		{"event-ttl", int64(c.EventTTL)}, {"revocation-ttl", int64(c.RevocationTTL)}, {"max-events", int64(c.MaxEvents)},
		{"max-event-bytes", int64(c.MaxEventBytes)}, {"max-events-per-writer", int64(c.MaxEventsPerWriter)}, {"log-bytes", c.LogBytes}, {"reap-interval", int64(c.ReapInterval)},
		{"agent-write-rate", int64(c.AgentWriteRate)}, {"agent-write-bytes", int64(c.AgentWriteBytes)},
		{"workload-write-rate", int64(c.WorkloadWriteRate)}, {"workload-write-bytes", int64(c.WorkloadWriteBytes)},
		{"max-pods-per-workload", int64(c.MaxPodsPerWorkload)}, {"max-pods-per-registrar", int64(c.MaxPodsPerRegistrar)}, {"max-services-per-registrar", int64(c.MaxServicesPerRegistrar)},
		{"certificate-lifetime", int64(c.CertificateLifetime)}, {"certificate-renewals", int64(c.CertificateRenewals)},
		{"heartbeat-timeout", int64(c.HeartbeatTimeout)}, {"stream-replicas", int64(c.StreamReplicas)},
	} {
		if flag.value <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be more than nothing", flag.name))
		}
	}
	if (c.IssuerCert == "") != (c.IssuerKey == "") {
		errs = append(errs, errors.New("issuer-cert, issuer-key: both or none are required"))
	}
	if problem := spec.DNSSubdomain(c.Zone); problem != "" {
		errs = append(errs, fmt.Errorf("zone: %s", problem))
	}
	if err := quota.CheckQuotas(c.NamespaceQuotas); err != nil {
		errs = append(errs, fmt.Errorf("namespace-quotas: %w", err))
	}
	return errors.Join(errs...)
}

// ReadStoreFile sets the store to the content of the configured file. Without a file it does nothing.
func (c *Config) ReadStoreFile() error {
	return daemon.ReadStoreFile(&c.Store, &c.StoreFile)
}

// StoreLocation returns the kind of the configured store and its location: a folder or a DSN. The
// store's file must have been read before.
func (c *Config) StoreLocation() (kind, where string, err error) {
	return daemon.StoreLocation(c.Store)
}

// DataFolder returns the folder of the embedded store, or "" if the store is another one.
func (c *Config) DataFolder() string {
	if kind, where, err := c.StoreLocation(); err == nil && kind == daemon.SQLite && c.StoreFile == "" {
		return where
	}
	return ""
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

// NamespaceQuota limits a resource in a namespace.
type NamespaceQuota = quota.NamespaceQuota
