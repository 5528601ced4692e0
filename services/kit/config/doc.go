// Package config reads the configuration of a daemon into a struct.
//
// Each field describes its setting in tags:
//
//	Lease time.Duration `flag:"lease" default:"40s" usage:"how long a node may be silent"`
//
// The setting can then be given as the flag -lease, as the environment variable
// PORTOLAN_<DAEMON>_LEASE, or as the key lease of a YAML file, in this order of precedence.
// Embedded structs are flattened. A daemon can change the defaults of an embedded struct:
// `default:"addr=127.0.0.1:7400 http-addr=127.0.0.1:7500"`. Fields without a flag tag are not
// configuration.
//
// The invariant: a value is either parsed completely or refused. All problems are reported at once,
// each with the key, its origin and, for an unknown name, the most similar known name. Unknown
// environment variables are not reported, because service discovery adds names such as
// PORTOLAN_REGISTRY_PORT to environments, which cannot be distinguished from mistakes.
//
// A flag with a password in it, such as a URL of a database, is refused, because every user of the
// machine can read the arguments of a process. The environment and the file may have passwords, and
// -print-config masks them.
//
// A configuration library would add merging of many formats and live reload. Neither is needed
// here, and most libraries lose the origin of a value.
package config
