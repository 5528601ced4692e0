// Package config reads the configuration of a daemon into a struct.
//
// A field is described once, by its tags:
//
//	Lease time.Duration `flag:"lease" default:"40s" usage:"how long a node may be silent"`
//
// and can then be given as the flag -lease, as the environment variable
// PORTOLAN_<DAEMON>_LEASE, or as the key lease of a YAML file, in this order of
// precedence. Embedded structs are flattened. The embedding daemon may change
// the defaults of what it embeds: `default:"addr=127.0.0.1:7400 http-addr=127.0.0.1:7500"`.
// Fields without a flag tag are not configuration.
//
// The invariant: a value is either understood completely or refused. Every
// problem is reported, all at once, with the key, the place it came from and,
// for an unknown name, the nearest known one. Unknown environment variables are
// the exception: service discovery puts names such as PORTOLAN_REGISTRY_PORT
// into environments, so they cannot be told from mistakes.
//
// A configuration library would bring merging of many formats and live reload.
// Neither is wanted here, and where a value came from is lost in most of them.
package config
