package balancer

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "portolan.dev/api/core/v1"
)

// Settings are the settings of a service's load balancer.
type Settings struct {
	// Internal reports whether only clients of the internal network should reach the load balancer.
	Internal bool

	// ProxyProtocol is the version of the PROXY header at the beginning of each connection to a backend, at
	// all ports. It is not sent if the backend protocol is an HTTP one.
	ProxyProtocol ProxyProtocol
	// ProxyFrom has the addresses of clients that begin their connections with a PROXY header. Other
	// clients do not send it.
	ProxyFrom []netip.Prefix

	// TLS reports whether ports speak TLS to clients. It is also true if the annotation has only invalid
	// certificates, so that no client sends data unencrypted by mistake.
	TLS          bool
	Certificates []CertificateRef
	// TLSPorts are the numbers or names of the ports that speak TLS; empty: all.
	TLSPorts []string
	// TLSPolicy is the name of the TLSPolicy; "": the default.
	TLSPolicy string

	BackendProtocol BackendProtocol
	// BackendCA signs the certificates of backends; nil: they are not verified, as in clouds.
	BackendCA *CertificateRef
	// BackendServerName is the name in the certificates of backends; "": none is sent or compared.
	BackendServerName string

	AccessLog AccessLog
	Drain     Drain
	// IdleTimeout is the time after which a connection without traffic is closed.
	IdleTimeout time.Duration
	// CrossZone reports whether backends of all zones are equal. Otherwise backends in the zone of the load
	// balancer are preferred.
	CrossZone bool
	Check     Check
	// SourceGroups are names of address ranges in the edge's configuration. Clients in these ranges are
	// allowed, in addition to clients in the service's source ranges.
	SourceGroups []string
	// Tags are recorded in the access log.
	Tags map[string]string
}

// ProxyProtocol is a version of the PROXY protocol.
type ProxyProtocol int

// Versions of the PROXY protocol.
const (
	ProxyNone ProxyProtocol = iota
	ProxyV1                 // a line of text
	ProxyV2                 // binary
)

// CertificateRef names a certificate with its key.
type CertificateRef struct {
	Kind CertificateKind
	Name string
	// Port is the number or name of the port that uses the certificate; "": all ports.
	Port string
}

// String returns the reference as annotations have it.
func (r CertificateRef) String() string {
	text := r.Name
	switch r.Kind {
	case CertificateSecret:
		text = "secret/" + r.Name
	case CertificateFile:
		text = "file/" + r.Name
	case CertificateAny:
	}
	if r.Port != "" {
		return r.Port + "=" + text
	}
	return text
}

// isFor reports whether a certificate is for a port.
func (r CertificateRef) isFor(port *corev1.ServicePort) bool {
	return r.Port == "" || names(r.Port, port)
}

// CertificateKind says where a certificate is.
type CertificateKind int

// Kinds of certificates.
const (
	CertificateAny    CertificateKind = iota // a Secret of this name or, without one, a file
	CertificateSecret                        // a Secret in the namespace of the service
	CertificateFile                          // a file in the folder of the edge's certificates
)

// BackendProtocol is the protocol that backends speak.
type BackendProtocol int

// Protocols of backends.
const (
	BackendTCP   BackendProtocol = iota // layer 4
	BackendSSL                          // layer 4 over TLS
	BackendHTTP                         // HTTP/1.1
	BackendHTTPS                        // HTTP/1.1 or HTTP/2 over TLS
	BackendH2C                          // HTTP/2 without TLS
	BackendGRPC                         // HTTP/2 without TLS, for gRPC
)

// IsHTTP reports whether the load balancer reads requests, which is layer 7. Otherwise it copies bytes.
func (p BackendProtocol) IsHTTP() bool { return p >= BackendHTTP }

// IsTLS reports whether connections to backends are encrypted.
func (p BackendProtocol) IsTLS() bool { return p == BackendSSL || p == BackendHTTPS }

// String returns the value of the annotation.
func (p BackendProtocol) String() string { return nameOf(backendProtocols, p) }

// AccessLog has the settings of the access log.
type AccessLog struct {
	Enabled bool
	// Interval is the time after which a file is finished and the next one begun: 5 or 60 minutes.
	Interval time.Duration
	// Directory is the folder of the files, below the edge's folder of access logs. Prefix is a folder
	// below Directory.
	Directory, Prefix string
	Format            LogFormat
}

// LogFormat is the format of the lines of an access log.
type LogFormat int

// Formats of access logs.
const (
	LogELB  LogFormat = iota // the format of AWS' classic load balancers
	LogJSON                  // an object a line
)

// Drain has the settings for the connections of a removed backend.
type Drain struct {
	// Enabled reports whether the connections may continue until the timeout. Otherwise they are closed
	// at once.
	Enabled bool
	Timeout time.Duration
}

// Check has the settings of the checks of backends.
type Check struct {
	Enabled  bool
	Protocol CheckProtocol
	Path     string // of HTTP and HTTPS; of gRPC, the name of the service after a slash
	Port     int    // 0: the port of the traffic
	// Interval is the time between two checks of a backend, Timeout the longest time for an answer.
	Interval, Timeout time.Duration
	// Healthy is the number of successes after which a backend is used. Unhealthy is the number of
	// failures after which it is no longer used.
	Healthy, Unhealthy int
}

// CheckProtocol is the protocol of checks.
type CheckProtocol int

// Protocols of checks.
const (
	CheckTCP   CheckProtocol = iota // a connection
	CheckSSL                        // a handshake of TLS
	CheckHTTP                       // a request
	CheckHTTPS                      // a request over TLS
	CheckGRPC                       // the method Check of grpc.health.v1, for the service that the path names
)

// defaultDrain is the time for which connections of removed backends may continue. Node agents have the
// same default.
const defaultDrain = 300 * time.Second

// The times after which a connection without traffic is closed. The time for layer 4 is longer, because
// connections to databases, for example, are silent for long.
const (
	idleHTTP = time.Minute
	idleTCP  = time.Hour
)

// defaultCheckTimeout is the time for the answer to a check.
const defaultCheckTimeout = 5 * time.Second

// defaults returns the settings of a service without annotations.
func defaults(svc *corev1.Service) Settings {
	s := Settings{
		CrossZone: true,
		AccessLog: AccessLog{Interval: time.Hour},
		Drain:     Drain{Enabled: true, Timeout: defaultDrain},
		Check:     Check{Enabled: true, Interval: 10 * time.Second, Healthy: 2, Unhealthy: 6},
	}
	if seconds := svc.GetSpec().DrainTimeoutSeconds; seconds != nil {
		s.Drain = Drain{Enabled: *seconds > 0, Timeout: time.Duration(*seconds) * time.Second}
	}
	return s
}

// complete sets the defaults that depend on other settings.
func (s *Settings) complete() {
	if s.Drain.Enabled && s.Drain.Timeout <= 0 {
		s.Drain.Timeout = defaultDrain
	}
	if s.IdleTimeout == 0 {
		s.IdleTimeout = idleTCP
		if s.BackendProtocol.IsHTTP() {
			s.IdleTimeout = idleHTTP
		}
	}
	if s.BackendProtocol.IsHTTP() {
		s.ProxyProtocol = ProxyNone // requests of several clients share a connection
	}
	if s.Check.Timeout == 0 {
		s.Check.Timeout = min(defaultCheckTimeout, s.Check.Interval/2)
	}
}

// EndsTLS reports whether a port of the service speaks TLS to clients. If the service does not list these
// ports, they are the ports with a certificate. A certificate without a port is for all ports.
func (s *Settings) EndsTLS(port *corev1.ServicePort) bool {
	switch {
	case !s.TLS:
		return false
	case len(s.TLSPorts) > 0:
		return slices.ContainsFunc(s.TLSPorts, func(text string) bool { return names(text, port) })
	}
	return len(s.Certificates) == 0 || len(s.CertificatesOf(port)) > 0
}

// CertificatesOf returns the certificates of a port.
func (s *Settings) CertificatesOf(port *corev1.ServicePort) []CertificateRef {
	return slices.DeleteFunc(slices.Clone(s.Certificates), func(r CertificateRef) bool { return !r.isFor(port) })
}

// names reports whether a text is the number or the name of a port.
func names(text string, port *corev1.ServicePort) bool {
	return text == strconv.Itoa(int(port.GetPort())) || text == port.GetName()
}
