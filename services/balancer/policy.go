package balancer

import (
	"crypto/tls"
	"slices"
)

// TLSPolicy is a named choice of versions of TLS and cipher suites, for connections of clients.
type TLSPolicy struct {
	Name string
	// MinVersion and MaxVersion are constants of crypto/tls.
	MinVersion, MaxVersion uint16
	// Suites are the cipher suites of TLS 1.0 to 1.2. Go chooses their order. The suites of TLS 1.3 are
	// always the three of Go, because crypto/tls has no setting for them.
	Suites []uint16
	// LeftOut names the suites, as OpenSSL writes them, that the policy has in the cloud and Go lacks.
	LeftOut []string
}

// DefaultPolicy is the policy of a service that does not choose a policy.
const DefaultPolicy = "intermediate"

// PolicyOf returns the policy of a name. An empty name is DefaultPolicy.
func PolicyOf(name string) (TLSPolicy, bool) {
	if name == "" {
		name = DefaultPolicy
	}
	i := slices.IndexFunc(policies, func(p TLSPolicy) bool { return p.Name == name })
	if i < 0 {
		return TLSPolicy{}, false
	}
	return policies[i], true
}

// PolicyNames returns the names of all policies, the neutral ones first.
func PolicyNames() []string {
	names := make([]string, len(policies))
	for i, p := range policies {
		names[i] = p.Name
	}
	return names
}

// The groups of suites that policies consist of.
var (
	// ecdheGCM have forward secrecy and authenticated encryption.
	ecdheGCM = []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	}
	ecdheChaCha = []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256}
	ecdheSHA256 = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256}
	ecdheSHA    = []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
	}
	// The suites with key exchange by RSA, which have no forward secrecy.
	rsaGCM    = []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384}
	rsaSHA256 = []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA256}
	rsaSHA    = []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA}
	rsa3DES   = []uint16{tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA}

	forwardSecrecy = slices.Concat(ecdheGCM, ecdheSHA256, ecdheSHA)
	all            = slices.Concat(forwardSecrecy, rsaGCM, rsaSHA256, rsaSHA)

	// The suites that Go lacks: CBC with SHA-384, and of the exchange by RSA also CBC with a key of
	// 256 bits and SHA-256.
	ecdheSHA384    = []string{"ECDHE-ECDSA-AES256-SHA384", "ECDHE-RSA-AES256-SHA384"}
	ecdheAndRSACBC = []string{"ECDHE-ECDSA-AES256-SHA384", "ECDHE-RSA-AES256-SHA384", "AES256-SHA256"}
)

// policies is the table of all policies. A policy with a cloud's name has exactly the versions and suites
// of that cloud's policy, even if they are old. Without TLS13 in its name its highest version is TLS 1.2.
var policies = []TLSPolicy{
	{"modern", tls.VersionTLS13, tls.VersionTLS13, nil, nil},
	{"intermediate", tls.VersionTLS12, tls.VersionTLS13, slices.Concat(ecdheGCM, ecdheChaCha), nil},
	{"old", tls.VersionTLS10, tls.VersionTLS13, slices.Concat(all, ecdheChaCha, rsa3DES), nil},

	{"ELBSecurityPolicy-2016-08", tls.VersionTLS10, tls.VersionTLS12, all, ecdheAndRSACBC},
	{"ELBSecurityPolicy-TLS-1-0-2015-04", tls.VersionTLS10, tls.VersionTLS12, slices.Concat(all, rsa3DES), ecdheAndRSACBC},
	{"ELBSecurityPolicy-TLS-1-1-2017-01", tls.VersionTLS11, tls.VersionTLS12, all, ecdheAndRSACBC},
	{"ELBSecurityPolicy-TLS-1-2-2017-01", tls.VersionTLS12, tls.VersionTLS12, slices.Concat(ecdheGCM, ecdheSHA256, rsaGCM, rsaSHA256), ecdheAndRSACBC},
	{"ELBSecurityPolicy-TLS-1-2-Ext-2018-06", tls.VersionTLS12, tls.VersionTLS12, all, ecdheAndRSACBC},
	{"ELBSecurityPolicy-FS-2018-06", tls.VersionTLS10, tls.VersionTLS12, forwardSecrecy, ecdheSHA384},
	{"ELBSecurityPolicy-FS-1-1-2019-08", tls.VersionTLS11, tls.VersionTLS12, forwardSecrecy, ecdheSHA384},
	{"ELBSecurityPolicy-FS-1-2-2019-08", tls.VersionTLS12, tls.VersionTLS12, forwardSecrecy, ecdheSHA384},
	{"ELBSecurityPolicy-FS-1-2-Res-2019-08", tls.VersionTLS12, tls.VersionTLS12, slices.Concat(ecdheGCM, ecdheSHA256), ecdheSHA384},
	{"ELBSecurityPolicy-FS-1-2-Res-2020-10", tls.VersionTLS12, tls.VersionTLS12, ecdheGCM, nil},

	{"ELBSecurityPolicy-TLS13-1-3-2021-06", tls.VersionTLS13, tls.VersionTLS13, nil, nil},
	{"ELBSecurityPolicy-TLS13-1-2-Res-2021-06", tls.VersionTLS12, tls.VersionTLS13, ecdheGCM, nil},
	{"ELBSecurityPolicy-TLS13-1-2-2021-06", tls.VersionTLS12, tls.VersionTLS13, slices.Concat(ecdheGCM, ecdheSHA256), ecdheSHA384},
	{"ELBSecurityPolicy-TLS13-1-2-Ext1-2021-06", tls.VersionTLS12, tls.VersionTLS13, slices.Concat(ecdheGCM, ecdheSHA256, rsaGCM, rsaSHA256), ecdheAndRSACBC},
	{"ELBSecurityPolicy-TLS13-1-2-Ext2-2021-06", tls.VersionTLS12, tls.VersionTLS13, all, ecdheAndRSACBC},
	{"ELBSecurityPolicy-TLS13-1-1-2021-06", tls.VersionTLS11, tls.VersionTLS13, all, ecdheAndRSACBC},
	{"ELBSecurityPolicy-TLS13-1-0-2021-06", tls.VersionTLS10, tls.VersionTLS13, all, ecdheAndRSACBC},
}
