package balancer

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// service returns a service with the ports web (80) and tls (443). Annotations are pairs of a name and
// a value; a name without a slash is one of Portolan's.
func service(annotations ...string) *corev1.Service {
	svc := &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "web", Annotations: map[string]string{}}, Spec: &corev1.ServiceSpec{
		Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, Ports: []*corev1.ServicePort{{Name: "web", Port: 80}, {Name: "tls", Port: 443}},
	}}
	for i := 0; i < len(annotations); i += 2 {
		name := annotations[i]
		if !strings.Contains(name, "/") {
			name = Prefix + name
		}
		svc.Metadata.Annotations[name] = annotations[i+1]
	}
	return svc
}

// TestValues checks the settings of valid values, of both names. Each change is one of the defaults.
func TestValues(t *testing.T) {
	for _, test := range []struct {
		annotations []string
		want        func(*Settings)
	}{
		{nil, func(*Settings) {}},
		{[]string{"proxy-protocol", "", "example.com/other", "x"}, func(*Settings) {}},
		{[]string{"proxy-protocol", "v2"}, func(s *Settings) { s.ProxyProtocol = ProxyV2 }},
		{[]string{"proxy-protocol", " V1 "}, func(s *Settings) { s.ProxyProtocol = ProxyV1 }},
		{[]string{"proxy-protocol", "*"}, func(s *Settings) { s.ProxyProtocol = ProxyV1 }},
		{[]string{awsPrefix + "proxy-protocol", "*"}, func(s *Settings) { s.ProxyProtocol = ProxyV1 }},
		{[]string{awsPrefix + "proxy-protocol", "*", "proxy-protocol", "v2"}, func(s *Settings) { s.ProxyProtocol = ProxyV2 }},
		{[]string{"proxy-protocol-from", "10.1.2.3/8, 2001:db8::1"}, func(s *Settings) {
			s.ProxyFrom = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")}
		}},
		{[]string{"tls-cert", "secret/web, file/old_Web.1,web,secret/web"}, func(s *Settings) {
			s.TLS, s.Certificates = true, []CertificateRef{{Kind: CertificateSecret, Name: "web"}, {Kind: CertificateFile, Name: "old_Web.1"}, {Kind: CertificateAny, Name: "web"}}
		}},
		{[]string{awsPrefix + "ssl-cert", "arn:aws:acm:us-east-1:123456789012:certificate/12345678-90ab", awsPrefix + "ssl-ports", "443,tls"}, func(s *Settings) {
			s.TLS, s.Certificates, s.TLSPorts = true, []CertificateRef{{Kind: CertificateAny, Name: "12345678-90ab"}}, []string{"443", "tls"}
		}},
		{[]string{"tls-cert", "arn:aws:iam::1:server-certificate/path/Web_1", "tls-ports", "*", "tls-policy", "modern"}, func(s *Settings) {
			s.TLS, s.Certificates, s.TLSPolicy = true, []CertificateRef{{Kind: CertificateAny, Name: "Web_1"}}, "modern"
		}},
		{[]string{awsPrefix + "backend-protocol", "SSL", "backend-ca", "secret/ca", "backend-server-name", "web.example.com"}, func(s *Settings) {
			s.BackendProtocol, s.BackendCA, s.BackendServerName = BackendSSL, &CertificateRef{Kind: CertificateSecret, Name: "ca"}, "web.example.com"
		}},
		{[]string{"backend-protocol", "grpc"}, func(s *Settings) { s.BackendProtocol, s.IdleTimeout = BackendGRPC, time.Minute }},
		{[]string{"access-log", "true", "access-log-interval", "5m", "access-log-dir", "/shop/web/", "access-log-prefix", "a/b", "access-log-format", "json"}, func(s *Settings) {
			s.AccessLog = AccessLog{true, 5 * time.Minute, "shop/web", "a/b", LogJSON}
		}},
		{[]string{awsPrefix + "access-log-enabled", "true", awsPrefix + "access-log-emit-interval", "60", awsPrefix + "access-log-s3-bucket-name", "my-bucket", awsPrefix + "access-log-s3-bucket-prefix", "prod"}, func(s *Settings) {
			s.AccessLog = AccessLog{true, time.Hour, "my-bucket", "prod", LogELB}
		}},
		{[]string{"drain", "false"}, func(s *Settings) { s.Drain.Enabled = false }},
		{[]string{awsPrefix + "connection-draining-enabled", "true", awsPrefix + "connection-draining-timeout", "60"}, func(s *Settings) { s.Drain.Timeout = time.Minute }},
		{[]string{"idle-timeout", "90"}, func(s *Settings) { s.IdleTimeout = 90 * time.Second }},
		{[]string{awsPrefix + "connection-idle-timeout", "4000"}, func(s *Settings) { s.IdleTimeout = 4000 * time.Second }},
		{[]string{"cross-zone", "false"}, func(s *Settings) { s.CrossZone = false }},
		{[]string{"check", "false"}, func(s *Settings) { s.Check.Enabled = false }},
		{[]string{"check-path", "/healthz"}, func(s *Settings) { s.Check.Protocol, s.Check.Path = CheckHTTP, "/healthz" }},
		{[]string{"check-protocol", "https"}, func(s *Settings) { s.Check.Protocol, s.Check.Path = CheckHTTPS, "/" }},
		{[]string{"check-protocol", "grpc", "check-path", "/shop.Cart"}, func(s *Settings) { s.Check.Protocol, s.Check.Path = CheckGRPC, "/shop.Cart" }},
		{[]string{"check-port", "9000", "check-healthy", "10", "check-unhealthy", "2"}, func(s *Settings) {
			s.Check.Port, s.Check.Healthy, s.Check.Unhealthy = 9000, 10, 2
		}},
		{[]string{"check-port", "traffic-port"}, func(*Settings) {}},
		{[]string{"check-interval", "200ms"}, func(s *Settings) { s.Check.Interval, s.Check.Timeout = 200*time.Millisecond, 100*time.Millisecond }},
		{[]string{"check-interval", "300", "check-timeout", "4m59s"}, func(s *Settings) { s.Check.Interval, s.Check.Timeout = 300*time.Second, 299*time.Second }},
		{[]string{awsPrefix + "healthcheck-interval", "5"}, func(s *Settings) { s.Check.Interval, s.Check.Timeout = 5*time.Second, 2500*time.Millisecond }},
		{[]string{awsPrefix + "extra-security-groups", "sg-1, sg-2"}, func(s *Settings) { s.SourceGroups = []string{"sg-1", "sg-2"} }},
		{[]string{"tags", "team=shop, cost = 7,empty"}, func(s *Settings) {
			s.Tags = map[string]string{"team": "shop", "cost": "7", "empty": ""}
		}},
		{[]string{"pool", "x", "ips", "192.0.2.1", "share", "k", "provider", ClassEdge, object.AnnotationBalancerIPsOlder, "y"}, func(*Settings) {}},
		{[]string{awsPrefix + "internal", "0.0.0.0/0"}, func(s *Settings) { s.Internal = true }},
	} {
		want := defaults(service())
		want.IdleTimeout, want.Check.Timeout = time.Hour, 5*time.Second
		test.want(&want)
		got, problems := Parse(service(test.annotations...))
		if !reflect.DeepEqual(got, want) || len(problems) > 0 {
			t.Errorf("%q:\n%+v\nwant\n%+v\nproblems %v", test.annotations, got, want, problems)
		}
	}
}

// TestNamesOfBackendProtocols checks that the name of a protocol is the value of the annotation for it. The API of edges
// and portolan show the name.
func TestNamesOfBackendProtocols(t *testing.T) {
	for _, value := range []string{"tcp", "ssl", "http", "https", "h2c", "grpc"} {
		settings, problems := Parse(service("backend-protocol", value))
		if name := settings.BackendProtocol.String(); name != value || len(problems) > 0 {
			t.Errorf("the protocol %q has the name %q, problems %v", value, name, problems)
		}
	}
}

// TestDrainOfTheSpec checks which setting of draining is used, of the spec or of the annotations.
func TestDrainOfTheSpec(t *testing.T) {
	for _, test := range []struct {
		spec        int32
		annotations []string
		want        Drain
	}{
		{0, nil, Drain{}},
		{7, nil, Drain{true, 7 * time.Second}},
		{7, []string{"drain-timeout", "9"}, Drain{true, 9 * time.Second}},
		{0, []string{"drain", "true"}, Drain{true, 300 * time.Second}},
		{7, []string{"drain", "false"}, Drain{false, 7 * time.Second}},
	} {
		svc := service(test.annotations...)
		svc.Spec.DrainTimeoutSeconds = &test.spec
		if got, problems := Parse(svc); got.Drain != test.want || len(problems) > 0 {
			t.Errorf("%d, %q: %+v, %v, want %+v", test.spec, test.annotations, got.Drain, problems, test.want)
		}
	}
}

// TestProblems checks the kind, the name and a part of the message of each problem.
func TestProblems(t *testing.T) {
	for _, test := range []struct {
		annotations []string
		kind        ProblemKind
		name, text  string
	}{
		{[]string{"proxy-protocol", "v3"}, Invalid, "proxy-protocol", `"v3": must be one of v1, v2, *`},
		{[]string{awsPrefix + "proxy-protocol", "v1"}, Invalid, awsPrefix + "proxy-protocol", "must be *"},
		{[]string{"proxy-protocol-from", "10.0.0.0/8,web"}, Invalid, "proxy-protocol-from", `"web" is no range`},
		{[]string{"proxy-protocol-from", "::ffff:10.0.0.0/104"}, Invalid, "proxy-protocol-from", "is no range"},
		{[]string{"proxy-protocol-from", ","}, Invalid, "proxy-protocol-from", "must be ranges"},
		{[]string{"tls-cert", "web,../etc/passwd"}, Invalid, "tls-cert", "is no certificate"},
		{[]string{"tls-cert", "file/.hidden"}, Invalid, "tls-cert", "is no certificate"},
		{[]string{"tls-cert", ","}, Invalid, "tls-cert", "is no certificate"},
		{[]string{"tls-ports", "443"}, Invalid, "tls-ports", "there is no certificate for these ports: name one by the annotation loadbalancer.portolan.dev/tls-cert"},
		{[]string{"tls-cert", "web", "tls-ports", "8443"}, Invalid, "tls-ports", `the service has no port "8443"`},
		{[]string{"tls-cert", "web", "tls-ports", ","}, Invalid, "tls-ports", "must be numbers or names"},
		{[]string{"tls-cert", "web", "tls-policy", "latest"}, Invalid, "tls-policy", "use one of modern, intermediate"},
		{[]string{awsPrefix + "backend-protocol", "grpc"}, Invalid, awsPrefix + "backend-protocol", "must be one of tcp, ssl, http, https"},
		{[]string{"backend-protocol", "https", "backend-ca", "a b"}, Invalid, "backend-ca", "is no certificate"},
		{[]string{"backend-protocol", "https", "backend-server-name", "a..b"}, Invalid, "backend-server-name", "DNS name"},
		{[]string{"access-log", "yes"}, Invalid, "access-log", "must be one of true, false"},
		{[]string{"access-log", "true", "access-log-interval", "7m"}, Invalid, "access-log-interval", "must be one of 5m, 60m"},
		{[]string{"access-log", "true", awsPrefix + "access-log-emit-interval", "5m"}, Invalid, awsPrefix + "access-log-emit-interval", "must be one of 5, 60"},
		{[]string{"access-log", "true", "access-log-dir", "../secrets"}, Invalid, "access-log-dir", "path of a folder"},
		{[]string{"access-log", "true", "access-log-prefix", "/"}, Invalid, "access-log-prefix", "path of a folder"},
		{[]string{"access-log", "true", "access-log-format", "xml"}, Invalid, "access-log-format", "elb, json"},
		{[]string{"drain-timeout", "0"}, Invalid, "drain-timeout", "from 1s to 1h"},
		{[]string{awsPrefix + "connection-draining-timeout", "3601"}, Invalid, awsPrefix + "connection-draining-timeout", "seconds from 1 to 3600"},
		{[]string{"idle-timeout", "2h"}, Invalid, "idle-timeout", "from 1s to 1h6m40s"},
		{[]string{awsPrefix + "connection-idle-timeout", "60s"}, Invalid, awsPrefix + "connection-idle-timeout", "number of seconds from 1 to 4000"},
		{[]string{"check-interval", "99ms"}, Invalid, "check-interval", "from 100ms to 5m"},
		{[]string{awsPrefix + "healthcheck-interval", "4"}, Invalid, awsPrefix + "healthcheck-interval", "from 5 to 300"},
		{[]string{awsPrefix + "healthcheck-timeout", "1"}, Invalid, awsPrefix + "healthcheck-timeout", "from 2 to 60"},
		{[]string{"check-timeout", "10s"}, Invalid, "check-timeout", "must be less than the interval of checks, which is 10s"},
		{[]string{awsPrefix + "healthcheck-protocol", "grpc"}, Invalid, awsPrefix + "healthcheck-protocol", "must be one of tcp, ssl, http, https"},
		{[]string{"check-healthy", "1"}, Invalid, "check-healthy", "from 2 to 10"},
		{[]string{awsPrefix + "healthcheck-unhealthy-threshold", "11"}, Invalid, awsPrefix + "healthcheck-unhealthy-threshold", "from 2 to 10"},
		{[]string{"check-path", "healthz"}, Invalid, "check-path", "must be a path"},
		{[]string{"check-port", "0"}, Invalid, "check-port", "from 1 to 65535, or traffic-port"},
		{[]string{"source-groups", "a,b c"}, Invalid, "source-groups", `"b c" is no name`},
		{[]string{"tags", "a=1,a=2"}, Invalid, "tags", "different keys"},
		{[]string{"tags", "=1"}, Invalid, "tags", "KEY=VALUE"},
		{[]string{awsPrefix + "internal", "true", beta + "azure-load-balancer-internal", "false"}, Invalid, beta + "azure-load-balancer-internal", "something else than the annotation " + awsPrefix + "internal"},

		{[]string{awsPrefix + "type", "nlb"}, NotHonoured, awsPrefix + "type", "use the class portolan.dev/pool with externalTrafficPolicy Local, or loadbalancer.portolan.dev/proxy-protocol"},
		{[]string{"proxy-protocol", "v2", "backend-protocol", "http"}, NotHonoured, "proxy-protocol", "X-Forwarded-For"},
		{[]string{"tls-policy", "modern"}, NotHonoured, "tls-policy", "has no effect without loadbalancer.portolan.dev/tls-cert"},
		{[]string{"tls-cert", "web", "tls-policy", "ELBSecurityPolicy-2016-08"}, NotHonoured, "tls-policy", "AES256-SHA256"},
		{[]string{"backend-ca", "ca"}, NotHonoured, "backend-ca", "unless the backend protocol is ssl or https"},
		{[]string{awsPrefix + "access-log-s3-bucket-name", "b"}, NotHonoured, awsPrefix + "access-log-s3-bucket-name", "unless access logs are enabled"},
		{[]string{"drain", "false", "drain-timeout", "9"}, NotHonoured, "drain-timeout", "unless connections drain"},
		{[]string{"check", "false", "check-path", "/"}, NotHonoured, "check-path", "unless backends are checked"},
		{[]string{"check-protocol", "tcp", "check-path", "/"}, NotHonoured, "check-path", "unless checks are requests"},
		{[]string{"tls-cert", "8443=web"}, Invalid, "tls-cert", `the service has no port "8443"`},
		{[]string{"tls-cert", "tls=web", "tls-ports", "web"}, Invalid, "tls-ports", "there is no certificate for the port 80"},
		{[]string{"tls-cert", "=web"}, Invalid, "tls-cert", `the service has no port ""`},
		{[]string{"tls-certs", "web"}, NotHonoured, "tls-certs", "is unknown, and nothing acts on it: did you mean loadbalancer.portolan.dev/tls-cert?"},
		{[]string{"color", "blue"}, NotHonoured, "color", "is unknown"},
		{[]string{awsPrefix + "eip-allocations", "x"}, NotHonoured, awsPrefix + "eip-allocations", "is unknown"},
	} {
		if !strings.Contains(test.name, "/") {
			test.name = Prefix + test.name
		}
		_, problems := Parse(service(test.annotations...))
		if len(problems) != 1 || problems[0].Kind != test.kind || problems[0].Annotation != test.name || !strings.Contains(problems[0].Message, test.text) {
			t.Errorf("%q: %+v\nwant %v of %s: %s", test.annotations, problems, test.kind, test.name, test.text)
		}
	}
}

// TestAnInvalidValueIsSafe checks the settings of a service with an invalid value.
func TestAnInvalidValueIsSafe(t *testing.T) {
	s, _ := Parse(service("tls-cert", "..", "backend-protocol", "ssl", "backend-ca", "..", "source-groups", "a b", awsPrefix+"internal", "false", beta+"azure-load-balancer-internal", "true"))
	if !s.TLS || !s.EndsTLS(&corev1.ServicePort{Port: 80}) || len(s.Certificates) > 0 || s.BackendCA == nil || len(s.SourceGroups) != 1 || !s.Internal {
		t.Errorf("got %+v", s)
	}
}

// TestEndsTLS checks which ports speak TLS.
func TestEndsTLS(t *testing.T) {
	for text, want := range map[string]string{"": "80 443", "*": "80 443", "443": "443", "tls": "443", "web,443": "80 443"} {
		svc := service("tls-cert", "web", "tls-ports", text)
		s, _ := Parse(svc)
		var got []string
		for _, port := range svc.Spec.Ports {
			if s.EndsTLS(port) {
				got = append(got, fmt.Sprint(port.Port))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v speak TLS, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{"tls=web": "443", "80=web,443=shop": "80 443", "web,tls=shop": "80 443", "..": "80 443"} {
		svc := service("tls-cert", text)
		s, _ := Parse(svc)
		var got []string
		for _, port := range svc.Spec.Ports {
			if s.EndsTLS(port) {
				got = append(got, fmt.Sprint(port.Port))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("certificates %q: %v speak TLS, want %s", text, got, want)
		}
	}
	svc := service("tls-cert", "tls=web, both", "tls-ports", "*")
	if s, _ := Parse(svc); len(s.CertificatesOf(svc.Spec.Ports[0])) != 1 || len(s.CertificatesOf(svc.Spec.Ports[1])) != 2 {
		t.Errorf("the certificates are %v", s.Certificates)
	}
	if s, _ := Parse(service()); s.EndsTLS(&corev1.ServicePort{Port: 443}) {
		t.Error("a port without a certificate speaks TLS")
	}
}

// TestTable checks that each name is in the table once, and that each row is described.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Annotations() {
		names := []string{row.Name}
		for _, alias := range row.Aliases {
			names = append(names, alias.Name)
			if (alias.set == nil) != (row.set == nil) {
				t.Errorf("%s: only one of it and %s is parsed", row.Name, alias.Name)
			}
		}
		for _, name := range names {
			if name != "" && seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
		if row.Name == "" && row.By != ByNobody || row.Values == "" || row.Default == "" || !strings.HasSuffix(row.Effect, ".") {
			t.Errorf("the row %+v lacks a part", row)
		}
	}
	if len(known) != len(seen)+1 || !slices.Contains(knownBelow[Prefix], "tls-cert") {
		t.Errorf("known are %d names, in the table are %d", len(known), len(seen))
	}
}

// TestInternal checks each annotation with the values that the manifests of cloud providers have, and
// values that ask for nothing.
func TestInternal(t *testing.T) {
	for _, test := range []struct {
		annotation, value string
		want              bool
	}{
		{object.AnnotationBalancerInternal, "true", true},
		{object.AnnotationBalancerInternal, "false", false},
		{object.AnnotationBalancerInternal, "", false},
		{"cloud.google.com/load-balancer-type", "Internal", true},
		{"cloud.google.com/load-balancer-type", "internal", true},
		{"cloud.google.com/load-balancer-type", "External", false},
		{"networking.gke.io/load-balancer-type", "Internal", true},
		{beta + "aws-load-balancer-internal", "0.0.0.0/0", true},
		{beta + "aws-load-balancer-internal", "true", true},
		{beta + "aws-load-balancer-internal", "False", false},
		{beta + "aws-load-balancer-type", "nlb", false},
		{beta + "azure-load-balancer-internal", "true", true},
		{beta + "openstack-internal-load-balancer", "true", true},
		{beta + "cce-load-balancer-internal-vpc", "true", true},
		{"service.kubernetes.io/ibm-load-balancer-cloud-provider-ip-type", "private", true},
		{"service.kubernetes.io/ibm-load-balancer-cloud-provider-ip-type", "public", false},
		{"service.kubernetes.io/qcloud-loadbalancer-internal-subnetid", "subnet-1", true},
		{beta + "alibaba-cloud-loadbalancer-address-type", "intranet", true},
		{beta + "alibaba-cloud-loadbalancer-address-type", "internet", false},
		{beta + "oci-load-balancer-internal", "true", true},
	} {
		want := ""
		if test.want {
			want = test.annotation
		}
		if got := Internal(service(test.annotation, test.value)); got != want {
			t.Errorf("%s: %q: got %q, want %q", test.annotation, test.value, got, want)
		}
	}
	if got := Internal(service(awsPrefix+"internal", "true", "internal", "false")); got != "" {
		t.Errorf("Portolan's own annotation says no, and %s decides", got)
	}
	if got := Internal(service(awsPrefix+"internal", "false", beta+"azure-load-balancer-internal", "true")); got != beta+"azure-load-balancer-internal" {
		t.Errorf("one cloud's annotation is enough, and %q decides", got)
	}
	if got := Internal(service()); got != "" {
		t.Errorf("without annotations %s decides", got)
	}
}
