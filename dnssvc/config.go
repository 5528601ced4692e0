package dnssvc

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"portolan.dev/dnssvc/internal/forward"
	"portolan.dev/dnssvc/internal/server"
	"portolan.dev/dnssvc/internal/zone"
	"portolan.dev/services/daemon"
)

// Config is the configuration of the daemon.
type Config struct {
	daemon.Common `default:"addr=127.0.0.1:7403 http-addr=127.0.0.1:7503"`

	Registry    string         `flag:"registry" default:"127.0.0.1:7400" usage:"host:port of the registry's gRPC API; several, comma separated"`
	DataDir     string         `flag:"data-dir" usage:"folder of the last view, from which to start if the registry is unavailable; empty: none"`
	ServiceCIDR []netip.Prefix `flag:"service-cidr" default:"10.96.0.0/16" usage:"ranges of virtual IPs, for PTR records"`
	PodCIDR     []netip.Prefix `flag:"pod-cidr" usage:"ranges of endpoint addresses, for PTR records"`
	Zones       []string       `flag:"zones" default:"cluster.local" usage:"zones in which services have names; PTR records name the first"`

	Listen              []string     `flag:"listen" default:":53" usage:"host:port list to answer DNS on, by UDP and TCP"`
	ListenTLS           []string     `flag:"listen-tls" usage:"host:port list to answer DNS over TLS on, usually port 853; empty: off"`
	ListenTLSCert       string       `flag:"listen-tls-cert" usage:"file of the certificate (PEM) for DNS over TLS, which clients verify by host name or address; empty: the certificate of -tls-cert"`
	ListenTLSKey        string       `flag:"listen-tls-key" usage:"file of the private key (PEM) of -listen-tls-cert"`
	Advertise           []netip.Addr `flag:"advertise" usage:"addresses of this name server in the zones; default: the addresses of -listen"`
	TTL                 uint32       `flag:"ttl" default:"5" usage:"TTL of records, and of negative answers, in seconds; at most 3600"`
	PodRecords          zone.PodMode `flag:"pod-records" default:"disabled" usage:"names of pods: disabled, insecure (the address in the name is the answer), or verified"`
	EmptyHeadlessExists bool         `flag:"empty-headless-exists" default:"false" usage:"a headless service without ready endpoints is NODATA, not NXDOMAIN"`

	DataMaxAge time.Duration `flag:"data-max-age" default:"24h" usage:"maximum age of a view on disk that is used"`

	Clients         []netip.Prefix   `flag:"clients" default:"127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7" usage:"clients that may get UDP answers longer than their questions; other clients are told to ask by TCP; empty: all clients"`
	Upstreams       []forward.Server `flag:"upstreams" usage:"upstream name servers for other names, as ADDRESS:PORT or, over TLS, tls://ADDRESS[:PORT][#NAME]; empty: such names are refused"`
	RecursionAllow  []netip.Prefix   `flag:"recursion-allow" default:"127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7" usage:"clients whose queries for other names are answered"`
	CacheEntries    int              `flag:"cache-entries" default:"20000" usage:"number of cached answers of upstream servers"`
	ServeStale      time.Duration    `flag:"serve-stale" default:"1h" usage:"time for which an expired answer is given if the upstream servers fail; 0s: never"`
	UpstreamTimeout time.Duration    `flag:"upstream-timeout" default:"2s" usage:"time limit of one upstream server's answer"`

	TransferAllow []netip.Prefix     `flag:"transfer-allow" usage:"secondaries that may transfer zones (AXFR)"`
	TransferKeys  string             `flag:"transfer-keys" usage:"file of the secondaries' keys (TSIG), as tsig-keygen writes it; with keys, transfers must be signed, and -transfer-allow may be left out"`
	Notify        []server.Secondary `flag:"notify" usage:"secondaries that get a NOTIFY when a zone changes, as ADDRESS:PORT or, signed, ADDRESS:PORT#KEY"`

	MaxUDP            int           `flag:"max-udp" default:"1232" usage:"largest answer by UDP in bytes, 512-4096"`
	MaxRecordsUDP     int           `flag:"max-records-udp" default:"0" usage:"maximum number of records of a set in an answer by UDP, in rotation; 0: all, or none and the TC bit"`
	MaxRecordsTCP     int           `flag:"max-records-tcp" default:"0" usage:"maximum number of records of a set in an answer by TCP, in rotation; 0: as many as fit into 64 KiB"`
	IdleTimeout       time.Duration `flag:"idle-timeout" default:"10s" usage:"time limit of an idle TCP connection, and of receiving one query"`
	MaxConns          int           `flag:"max-conns" default:"2000" usage:"maximum number of TCP connections, including those over TLS"`
	MaxConnsPerClient int           `flag:"max-conns-per-client" default:"200" usage:"maximum number of TCP connections from one address or IPv6 /64, including those over TLS"`
	MaxPending        int           `flag:"max-pending" default:"2000" usage:"maximum number of queries that wait for upstream servers; one client may have as many as are free"`
	Workers           int           `flag:"workers" default:"1" usage:"goroutines that read from each UDP socket"`
	FastPath          bool          `flag:"fast-path" default:"true" usage:"answer common queries without unpacking them"`
	LogQueries        bool          `flag:"log-queries" default:"false" usage:"log every query"`
	LameDuck          time.Duration `flag:"lame-duck" default:"5s" usage:"time for which requests are answered after the signal to stop, while not ready"`
}

// Limits of the configuration.
const (
	maxTTL             = 3600
	minUDP             = 512
	maxUDP             = 4096
	maxWorkers         = 64
	minIdle            = 100 * time.Millisecond
	minUpstreamTimeout = 10 * time.Millisecond
)

// DataFolder returns the folder of the daemon's data, or "" if none is configured.
func (c *Config) DataFolder() string { return c.DataDir }

// Validate returns all errors of the configuration, joined.
func (c *Config) Validate() error {
	errs := []error{c.Common.Validate()}
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.TTL > maxTTL, "ttl: %d is more than %d", c.TTL, maxTTL)
	bad(c.MaxUDP < minUDP || c.MaxUDP > maxUDP, "max-udp: %d is not in %d-%d", c.MaxUDP, minUDP, maxUDP)
	bad(c.MaxRecordsUDP < 0, "max-records-udp: must not be negative")
	bad(c.MaxRecordsTCP < 0, "max-records-tcp: must not be negative")
	bad(c.Workers < 1 || c.Workers > maxWorkers, "workers: %d is not in 1-%d", c.Workers, maxWorkers)
	bad(c.IdleTimeout < minIdle, "idle-timeout: %s is less than %s", c.IdleTimeout, minIdle)
	bad(c.UpstreamTimeout < minUpstreamTimeout, "upstream-timeout: %s is less than %s", c.UpstreamTimeout, minUpstreamTimeout)
	bad(c.MaxConns < 1, "max-conns: must be at least 1")
	bad(c.MaxConnsPerClient < 1, "max-conns-per-client: must be at least 1")
	bad(c.MaxPending < 1, "max-pending: must be at least 1")
	bad(c.CacheEntries < 0, "cache-entries: must not be negative")
	bad(c.ServeStale < 0, "serve-stale: must not be negative")
	bad(c.LameDuck < 0, "lame-duck: must not be negative")
	bad(c.DataMaxAge <= 0, "data-max-age: must be more than 0")
	bad(len(c.Listen) == 0, "listen: an address is needed")
	for _, addr := range c.Listen {
		_, _, err := net.SplitHostPort(addr)
		bad(err != nil, "listen: %q: want host:port", addr)
	}
	for _, addr := range c.ListenTLS {
		_, _, err := net.SplitHostPort(addr)
		bad(err != nil, "listen-tls: %q: want host:port", addr)
	}
	bad((c.ListenTLSCert == "") != (c.ListenTLSKey == ""), "listen-tls-cert, listen-tls-key: both are needed, or neither")
	bad(c.ListenTLSCert != "" && len(c.ListenTLS) == 0, "listen-tls-cert: is of no use without listen-tls")
	bad(len(c.ListenTLS) > 0 && c.ListenTLSCert == "" && c.TLSCert == "",
		"listen-tls: a certificate is needed: give listen-tls-cert and listen-tls-key, or tls-cert, tls-key and tls-ca")
	if _, err := zone.New(c.zone()); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// zone returns the configuration of the zone table.
func (c *Config) zone() zone.Config {
	return zone.Config{
		Zones: c.Zones, Reverse: slices.Concat(c.ServiceCIDR, c.PodCIDR), TTL: c.TTL,
		Pods: c.PodRecords, EmptyHeadlessExists: c.EmptyHeadlessExists, Nameservers: c.nameservers(),
	}
}

// nameservers returns the addresses of this name server in its own zones: -advertise, or the
// specific addresses of -listen if -advertise is empty.
func (c *Config) nameservers() []netip.Addr {
	if len(c.Advertise) > 0 {
		return c.Advertise
	}
	var addrs []netip.Addr
	for _, text := range c.Listen {
		host, _, _ := net.SplitHostPort(text)
		if addr, err := netip.ParseAddr(host); err == nil && !addr.IsUnspecified() {
			addrs = append(addrs, addr.WithZone(""))
		}
	}
	return addrs
}
