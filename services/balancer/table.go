package balancer

import (
	"time"

	"portolan.dev/services/object"
)

const (
	// Prefix is the prefix of Portolan's own names.
	Prefix = "loadbalancer.portolan.dev/"
	// awsPrefix is the prefix of the names of AWS.
	awsPrefix = "service.beta.kubernetes.io/aws-load-balancer-"
	// beta is the prefix of names of several clouds.
	beta = "service.beta.kubernetes.io/"
)

// Names of rows that the checks of several annotations refer to.
const (
	nameProxyProtocol = Prefix + "proxy-protocol"
	nameTLSCert       = Prefix + "tls-cert"
	nameTLSPorts      = Prefix + "tls-ports"
	nameTLSPolicy     = Prefix + "tls-policy"
	nameBackendCA     = Prefix + "backend-ca"
	nameServerName    = Prefix + "backend-server-name"
	nameLogInterval   = Prefix + "access-log-interval"
	nameLogDir        = Prefix + "access-log-dir"
	nameLogPrefix     = Prefix + "access-log-prefix"
	nameLogFormat     = Prefix + "access-log-format"
	nameDrainTimeout  = Prefix + "drain-timeout"
	nameCheckProtocol = Prefix + "check-protocol"
	nameCheckPath     = Prefix + "check-path"
	nameCheckPort     = Prefix + "check-port"
	nameCheckInterval = Prefix + "check-interval"
	nameCheckTimeout  = Prefix + "check-timeout"
	nameHealthy       = Prefix + "check-healthy"
	nameUnhealthy     = Prefix + "check-unhealthy"
)

// internal is the row of internal load balancers. Each cloud has an annotation for it.
var internal = Annotation{
	Name: object.AnnotationBalancerInternal, set: setInternal(""), Values: "true, false", Default: "false", By: ByProvider,
	Effect: "The addresses come from lbctl's internal pools, which only the own network reaches.",
	Aliases: []Alias{
		{Name: awsPrefix + "internal", set: setInternal(""), Values: "0.0.0.0/0, true, false"},
		{Name: beta + "azure-load-balancer-internal", set: setInternal("")},
		{Name: beta + "openstack-internal-load-balancer", set: setInternal("")},
		{Name: beta + "cce-load-balancer-internal-vpc", set: setInternal("")},
		{Name: beta + "oci-load-balancer-internal", set: setInternal("")},
		{Name: "service.kubernetes.io/qcloud-loadbalancer-internal-subnetid", set: setInternal(""), Values: "a subnet"},
		{Name: "networking.gke.io/load-balancer-type", set: setInternal("Internal"), Values: "Internal"},
		{Name: "cloud.google.com/load-balancer-type", set: setInternal("Internal"), Values: "Internal"},
		{Name: "service.kubernetes.io/ibm-load-balancer-cloud-provider-ip-type", set: setInternal("private"), Values: "private, public"},
		{Name: beta + "alibaba-cloud-loadbalancer-address-type", set: setInternal("intranet"), Values: "intranet, internet"},
	},
}

// aws returns the alias of AWS. If values is "", the alias has the values of the row.
func aws(name, values string, set setter) []Alias {
	return []Alias{{Name: awsPrefix + name, Values: values, set: set}}
}

// table is the table of all annotations.
var table = []Annotation{
	{
		Name: object.AnnotationBalancerPool, Values: "the name of a pool", Default: "any pool that the service may use", By: ByProvider,
		Effect:  "The addresses come from this pool.",
		Aliases: []Alias{{Name: object.AnnotationBalancerPoolOlder}},
	},
	{
		Name: object.AnnotationBalancerIPs, Values: "addresses, comma separated", Default: "any addresses of the pool", By: ByProvider,
		Effect:  "The service has these addresses, or none.",
		Aliases: []Alias{{Name: object.AnnotationBalancerIPsOlder}},
	},
	{
		Name: object.AnnotationBalancerShare, Values: "a key", Default: "the addresses are the service's own", By: ByProvider,
		Effect:  "Services of one namespace and class with the same key have the same addresses.",
		Aliases: []Alias{{Name: object.AnnotationBalancerShareOlder}},
	},
	internal,
	{
		Name: nameProxyProtocol, From: FromConnection, set: oneOf(proxyProtocol, proxyProtocols), Values: "v1, v2, * (v1)", Default: "no header",
		Effect:  "With tcp and ssl, each connection to a backend, at every port, begins with a PROXY header that has the client's address.",
		Aliases: aws("proxy-protocol", "*", oneOf(proxyProtocol, cloudProxyProtocols)),
	},
	{
		Name: Prefix + "proxy-protocol-from", From: FromConnection, set: setProxyFrom, Values: "ranges of addresses, comma separated", Default: "none",
		Effect: "Connections from these addresses must begin with a PROXY header, whose client counts from then on.",
	},
	{
		Name: nameTLSCert, From: FromConnection, set: setCertificates, Values: "secret/NAME, file/NAME, NAME or an ARN, each for one port with PORT= before it; several, comma separated", Default: "ports speak no TLS",
		Effect:  "Clients speak TLS, with the certificate that fits the name they ask for, or else the first one.",
		Aliases: aws("ssl-cert", "", setCertificates),
	},
	{
		Name: nameTLSPorts, From: FromConnection, set: setTLSPorts, Values: "numbers or names of ports, comma separated; *", Default: "*: all ports",
		Effect:  "Only these ports speak TLS; the others are served in the clear.",
		Aliases: aws("ssl-ports", "", setTLSPorts),
	},
	{
		Name: nameTLSPolicy, From: FromConnection, set: setTLSPolicy, Values: "the name of a policy", Default: DefaultPolicy,
		Effect:  "Clients may use the versions and cipher suites of TLS that the policy has.",
		Aliases: aws("ssl-negotiation-policy", "", setTLSPolicy),
	},
	{
		Name: Prefix + "backend-protocol", From: FromRequest, set: oneOf(backendProtocol, backendProtocols), Values: "tcp, ssl, http, https, h2c, grpc", Default: "tcp",
		Effect:  "tcp and ssl copy bytes; the others read requests, choose a backend for each and add X-Forwarded-For; ssl and https encrypt to backends.",
		Aliases: aws("backend-protocol", namesOf(cloudBackendProtocols), oneOf(backendProtocol, cloudBackendProtocols)),
	},
	{
		Name: nameBackendCA, From: FromRequest, set: setBackendCA, Values: "secret/NAME, file/NAME or NAME", Default: "certificates of backends are not verified",
		Effect: "Backends whose certificate is not signed by this authority get no traffic.",
	},
	{
		Name: nameServerName, From: FromRequest, set: setServerName, Values: "a DNS name", Default: "no name",
		Effect: "The edge asks backends for the certificate of this name; with backend-ca it must have the name.",
	},
	{
		Name: Prefix + "access-log", set: boolean(logEnabled), Values: "true, false", Default: "false",
		Effect:  "The edge writes a line for each connection, or each request of HTTP, into files.",
		Aliases: aws("access-log-enabled", "", boolean(logEnabled)),
	},
	{
		Name: nameLogInterval, set: oneOf(logInterval, logIntervals), Values: "5m, 60m; 5, 60 (minutes)", Default: "60m",
		Effect:  "A file is finished after this time and the next one begun.",
		Aliases: aws("access-log-emit-interval", "5, 60 (minutes)", oneOf(logInterval, cloudLogIntervals)),
	},
	{
		Name: nameLogDir, set: folder(logDirectory), Values: "the path of a folder", Default: "the folder of the edge's access logs",
		Effect:  "The files are in this folder, below that of the edge's access logs.",
		Aliases: aws("access-log-s3-bucket-name", "", folder(logDirectory)),
	},
	{
		Name: nameLogPrefix, set: folder(logPrefix), Values: "the path of a folder", Default: "none",
		Effect:  "The files are in this folder below that of access-log-dir.",
		Aliases: aws("access-log-s3-bucket-prefix", "", folder(logPrefix)),
	},
	{
		Name: nameLogFormat, set: oneOf(logFormat, logFormats), Values: "elb, json", Default: "elb",
		Effect: "Lines are those of AWS' classic load balancers, or objects of JSON, which also have the tags.",
	},
	{
		Name: Prefix + "drain", set: boolean(drain), Values: "true, false", Default: "as spec.drainTimeoutSeconds; true",
		Effect:  "Connections to a removed backend may continue; otherwise they are closed at once.",
		Aliases: aws("connection-draining-enabled", "", boolean(drain)),
	},
	{
		Name: nameDrainTimeout, set: duration(drainTimeout, time.Second, time.Hour), Values: "1s to 1h; a number of seconds", Default: "spec.drainTimeoutSeconds; 300s",
		Effect:  "Connections to a removed backend are closed after this time.",
		Aliases: aws("connection-draining-timeout", "1 to 3600 (seconds)", wholeSeconds(drainTimeout, 1, 3600)),
	},
	{
		Name: Prefix + "idle-timeout", set: duration(idleTimeout, time.Second, 4000*time.Second), Values: "1s to 4000s; a number of seconds", Default: "60s for HTTP, 1h for TCP and TLS",
		Effect:  "A connection without traffic is closed after this time.",
		Aliases: aws("connection-idle-timeout", "1 to 4000 (seconds)", wholeSeconds(idleTimeout, 1, 4000)),
	},
	{
		Name: Prefix + "cross-zone", From: FromRequest, set: boolean(crossZone), Values: "true, false", Default: "true",
		Effect:  "Backends of all zones get traffic; with false only those of the edge's zone, as long as one of them can be used.",
		Aliases: aws("cross-zone-load-balancing-enabled", "", boolean(crossZone)),
	},
	{
		Name: Prefix + "check", set: boolean(checkEnabled), Values: "true, false", Default: "true",
		Effect: "Each edge checks each backend, and sends nothing to one that fails; with false it relies on the readiness in the slices.",
	},
	{
		Name: nameCheckProtocol, set: oneOf(checkProtocol, checkProtocols), Values: "tcp, ssl, http, https, grpc", Default: "tcp; http with check-path",
		Effect:  "A check is a connection, a handshake of TLS, a request that is answered by 200 to 399, or a call of grpc.health.v1.",
		Aliases: aws("healthcheck-protocol", namesOf(cloudCheckProtocols), oneOf(checkProtocol, cloudCheckProtocols)),
	},
	{
		Name: nameCheckPath, set: setCheckPath, Values: "a path", Default: "/",
		Effect:  "Checks by request ask for this path, and those of gRPC for the service of this name after the slash.",
		Aliases: aws("healthcheck-path", "", setCheckPath),
	},
	{
		Name: nameCheckPort, set: setCheckPort, Values: "1 to 65535, traffic-port", Default: "traffic-port: that of the endpoint",
		Effect:  "Checks go to this port of the backends.",
		Aliases: aws("healthcheck-port", "", setCheckPort),
	},
	{
		Name: nameCheckInterval, set: duration(checkInterval, leastCheck, mostCheck), Values: "100ms to 5m; a number of seconds", Default: "10s",
		Effect:  "Each backend is checked once in this time.",
		Aliases: aws("healthcheck-interval", "5 to 300 (seconds)", wholeSeconds(checkInterval, 5, 300)),
	},
	{
		Name: nameCheckTimeout, set: duration(checkTimeout, leastCheck, mostCheck), Values: "100ms to 5m, less than the interval; a number of seconds", Default: "5s, or half the interval if that is less",
		Effect:  "A check without an answer in this time has failed.",
		Aliases: aws("healthcheck-timeout", "2 to 60 (seconds), less than the interval", wholeSeconds(checkTimeout, 2, 60)),
	},
	{
		Name: nameHealthy, set: count(healthy, 2, 10), Values: "2 to 10", Default: "2",
		Effect:  "A backend that failed is used again after this number of successes.",
		Aliases: aws("healthcheck-healthy-threshold", "", count(healthy, 2, 10)),
	},
	{
		Name: nameUnhealthy, set: count(unhealthy, 2, 10), Values: "2 to 10", Default: "6",
		Effect:  "A backend gets nothing any more after this number of failures.",
		Aliases: aws("healthcheck-unhealthy-threshold", "", count(unhealthy, 2, 10)),
	},
	{
		Name: Prefix + "source-groups", From: FromConnection, set: setSourceGroups, Values: "names, comma separated", Default: "none",
		Effect:  "Clients in these ranges of the edge's configuration are allowed besides those of spec.loadBalancerSourceRanges; others are not.",
		Aliases: aws("extra-security-groups", "", setSourceGroups),
	},
	{
		Name: Prefix + "tags", set: setTags, Values: "KEY=VALUE, comma separated", Default: "none",
		Effect:  "The access log has them in the format json.",
		Aliases: aws("additional-resource-tags", "", setTags),
	},
	{
		By: ByNobody, Values: "nlb", Default: "—",
		Effect:  "None: it asks for a load balancer that passes packets on, and edges end connections. See below for what to use instead.",
		Aliases: aws("type", "", nil),
	},
}

// The shortest and the longest interval and timeout of checks.
const (
	leastCheck = 100 * time.Millisecond
	mostCheck  = 300 * time.Second
)

// The fields that rows set.

func proxyProtocol(s *Settings) *ProxyProtocol     { return &s.ProxyProtocol }
func backendProtocol(s *Settings) *BackendProtocol { return &s.BackendProtocol }
func logEnabled(s *Settings) *bool                 { return &s.AccessLog.Enabled }
func logInterval(s *Settings) *time.Duration       { return &s.AccessLog.Interval }
func logDirectory(s *Settings) *string             { return &s.AccessLog.Directory }
func logPrefix(s *Settings) *string                { return &s.AccessLog.Prefix }
func logFormat(s *Settings) *LogFormat             { return &s.AccessLog.Format }
func drain(s *Settings) *bool                      { return &s.Drain.Enabled }
func drainTimeout(s *Settings) *time.Duration      { return &s.Drain.Timeout }
func idleTimeout(s *Settings) *time.Duration       { return &s.IdleTimeout }
func crossZone(s *Settings) *bool                  { return &s.CrossZone }
func checkEnabled(s *Settings) *bool               { return &s.Check.Enabled }
func checkProtocol(s *Settings) *CheckProtocol     { return &s.Check.Protocol }
func checkInterval(s *Settings) *time.Duration     { return &s.Check.Interval }
func checkTimeout(s *Settings) *time.Duration      { return &s.Check.Timeout }
func healthy(s *Settings) *int                     { return &s.Check.Healthy }
func unhealthy(s *Settings) *int                   { return &s.Check.Unhealthy }
