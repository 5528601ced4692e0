package lbctl

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"portolan.dev/services/daemon"
	"portolan.dev/services/spec"
)

// Config is the configuration of the daemon.
type Config struct {
	daemon.Common `default:"addr=127.0.0.1:7406 http-addr=127.0.0.1:7506"`

	Registry  string `flag:"registry" default:"127.0.0.1:7400" usage:"host:port of the registry's gRPC API; several, comma separated"`
	Allocator string `flag:"allocator" default:"127.0.0.1:7401" usage:"host:port of the allocator's gRPC API; several, comma separated"`

	Providers       []ProviderAddress `flag:"providers" usage:"providers of other programs, as CLASS=host:port, comma separated; the built-in ones serve services without a class and those of the classes portolan.dev/pool and portolan.dev/edge"`
	ProviderTimeout time.Duration     `flag:"provider-timeout" default:"30s" usage:"deadline of each call of a provider"`
	ManualPools     []string          `flag:"manual-pools" usage:"pools from which a service gets an address only if it names the pool or the address"`
	PoolNamespaces  []PoolNamespaces  `flag:"pool-namespaces" usage:"namespaces that alone may use a pool, as POOL=NAMESPACE+NAMESPACE, comma separated"`
	InternalPools   []string          `flag:"internal-pools" usage:"pools whose addresses only the own network reaches: services that ask for an internal load balancer get addresses of these alone, others only if they name the pool or the address; none: such services are refused"`
	PoolsInterval   time.Duration     `flag:"pools-interval" default:"2s" usage:"interval at which the pools are read while a service waits for an address"`

	Announce          bool          `flag:"announce" default:"true" usage:"decide which node answers ARP and neighbour discovery for each address (nodeagent -announce-interfaces); false: the addresses reach nodes by routes"`
	AnnounceNodes     string        `flag:"announce-nodes" usage:"selector of the nodes that may announce addresses, such as lan=office; empty: all nodes"`
	AnnounceAnySubnet bool          `flag:"announce-any-subnet" default:"false" usage:"let nodes announce addresses that are in no subnet of their interfaces"`
	AnnounceRestart   time.Duration `flag:"announce-restart" default:"10s" usage:"time for which a node keeps its addresses while its agent restarts, planned or killed, and its kernel forwards; at least 1s"`
	AnnounceHandover  time.Duration `flag:"announce-handover" default:"1h" usage:"longest time for which the node that gets an address sends packets of earlier connections to the previous node, if that one lives; 0: not at all"`

	Workers       int           `flag:"workers" default:"32" usage:"number of services that are synced concurrently"`
	RetryMin      time.Duration `flag:"retry-min" default:"5s" usage:"pause after the first failure of a service; each further one doubles it"`
	RetryMax      time.Duration `flag:"retry-max" default:"5m" usage:"longest pause after a failure"`
	Identity      string        `flag:"identity" usage:"name of this replica in the lease, unique among the running replicas; a replica that restarts with the same name takes its lease back at once; default: host name and a random part"`
	LeaseName     string        `flag:"lease-name" default:"lbctl" usage:"name of the replicas' Lease, in the namespace default: lbctl, or a name that begins with lbctl-"`
	LeaseDuration time.Duration `flag:"lease-duration" default:"1500ms" usage:"time after which the leader's Lease ends unless it is renewed; at least 1s"`
}

// ProviderAddress is the address of a provider with the class that it serves.
type ProviderAddress struct{ Class, Addr string }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *ProviderAddress) UnmarshalText(text []byte) error {
	class, addr, ok := strings.Cut(string(text), "=")
	if !ok || class == "" || addr == "" {
		return fmt.Errorf("%q: want CLASS=host:port, such as example.com/metal=127.0.0.1:9000", text)
	}
	p.Class, p.Addr = class, addr
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (p ProviderAddress) MarshalText() ([]byte, error) { return []byte(p.Class + "=" + p.Addr), nil }

// PoolNamespaces is a pool with the namespaces that alone may use it.
type PoolNamespaces struct {
	Pool       string
	Namespaces []string
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *PoolNamespaces) UnmarshalText(text []byte) error {
	pool, names, ok := strings.Cut(string(text), "=")
	if !ok || pool == "" || names == "" {
		return fmt.Errorf("%q: want POOL=NAMESPACE, several with +", text)
	}
	p.Pool, p.Namespaces = pool, strings.Split(names, "+")
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (p PoolNamespaces) MarshalText() ([]byte, error) {
	return []byte(p.Pool + "=" + strings.Join(p.Namespaces, "+")), nil
}

// Validate returns all errors of the configuration, joined.
func (c *Config) Validate() error {
	errs := []error{c.Common.Validate()}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	classes := map[string]bool{}
	for _, kind := range builtin {
		classes[kind.Class] = true
	}
	for _, p := range c.Providers {
		check(!classes[p.Class], "providers: the class %q has a provider already", p.Class)
		check(spec.QualifiedName(p.Class) == "", "providers: %q is no class: %s", p.Class, spec.QualifiedName(p.Class))
		classes[p.Class] = true
	}
	pools := map[string]bool{}
	for _, p := range c.PoolNamespaces {
		check(!pools[p.Pool], "pool-namespaces: the pool %q is there twice; join its namespaces with +", p.Pool)
		pools[p.Pool] = true
	}
	check(c.ProviderTimeout > 0, "provider-timeout: must be more than nothing")
	check(c.PoolsInterval > 0, "pools-interval: must be more than nothing")
	check(c.Workers >= 1, "workers: must be at least 1")
	check(c.RetryMin > 0 && c.RetryMax >= c.RetryMin, "retry-min and retry-max: must be more than nothing, and retry-min not the longer one")
	_, err := spec.ParseSelector(c.AnnounceNodes)
	check(err == nil, "announce-nodes: %v", err)
	check(c.AnnounceRestart >= time.Second, "announce-restart: must be at least 1s")
	check(c.AnnounceHandover >= 0, "announce-handover: must not be less than nothing")
	check(c.LeaseDuration >= time.Second, "lease-duration: must be at least 1s")
	check(spec.IsBalancerLeaseName(c.LeaseName), "lease-name: must be lbctl, or begin with lbctl-, because lbctl may write no other Lease")
	check(!spec.IsBalancerOffersLeaseName(c.LeaseName), "lease-name: may not end with the suffix of the Leases in which lbctl reports the capabilities of providers, such as %s", spec.BalancerOffersLease(spec.BalancerLease))
	return errors.Join(errs...)
}
