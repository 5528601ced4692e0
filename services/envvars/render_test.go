package envvars_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/envvars"
	"portolan.dev/services/spec"
)

const (
	tcp = corev1.Protocol_PROTOCOL_TCP
	udp = corev1.Protocol_PROTOCOL_UDP
)

func service(namespace, name, ip string, ports ...*corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"name": name}},
		Spec:     &corev1.ServiceSpec{ClusterIp: ip, Ports: ports, Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP},
	}
}

func port(name string, number int32, protocol corev1.Protocol) *corev1.ServicePort {
	return &corev1.ServicePort{Name: name, Port: number, Protocol: protocol}
}

func TestRender(t *testing.T) {
	external := service("default", "alias", "", port("", 80, tcp))
	external.Spec.Type = corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME
	api := service("default", "kubernetes", "10.96.0.1", port("https", 443, tcp))
	selector, err := spec.ParseSelector("name in (a,c)")
	if err != nil {
		t.Fatal(err)
	}
	apiLines := lines(`
		KUBERNETES_PORT=tcp://10.96.0.1:443
		KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443
		KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1
		KUBERNETES_PORT_443_TCP_PORT=443
		KUBERNETES_PORT_443_TCP_PROTO=tcp
		KUBERNETES_SERVICE_HOST=10.96.0.1
		KUBERNETES_SERVICE_PORT=443
		KUBERNETES_SERVICE_PORT_HTTPS=443`)
	for _, test := range []struct {
		name     string
		services []*corev1.Service
		options  envvars.Options
		want     []string
	}{
		{"redis-primary", []*corev1.Service{service("default", "redis-primary", "10.0.0.11", port("", 6379, tcp))}, envvars.Options{}, lines(`
			REDIS_PRIMARY_PORT=tcp://10.0.0.11:6379
			REDIS_PRIMARY_PORT_6379_TCP=tcp://10.0.0.11:6379
			REDIS_PRIMARY_PORT_6379_TCP_ADDR=10.0.0.11
			REDIS_PRIMARY_PORT_6379_TCP_PORT=6379
			REDIS_PRIMARY_PORT_6379_TCP_PROTO=tcp
			REDIS_PRIMARY_SERVICE_HOST=10.0.0.11
			REDIS_PRIMARY_SERVICE_PORT=6379`)},
		{"several named ports, UDP first", []*corev1.Service{service("default", "dns", "10.0.0.10", port("dns", 53, udp), port("dns-tcp", 53, tcp), port("123-abc", 9, 0))}, envvars.Options{}, lines(`
			DNS_PORT=udp://10.0.0.10:53
			DNS_PORT_53_TCP=tcp://10.0.0.10:53
			DNS_PORT_53_TCP_ADDR=10.0.0.10
			DNS_PORT_53_TCP_PORT=53
			DNS_PORT_53_TCP_PROTO=tcp
			DNS_PORT_53_UDP=udp://10.0.0.10:53
			DNS_PORT_53_UDP_ADDR=10.0.0.10
			DNS_PORT_53_UDP_PORT=53
			DNS_PORT_53_UDP_PROTO=udp
			DNS_PORT_9_TCP=tcp://10.0.0.10:9
			DNS_PORT_9_TCP_ADDR=10.0.0.10
			DNS_PORT_9_TCP_PORT=9
			DNS_PORT_9_TCP_PROTO=tcp
			DNS_SERVICE_HOST=10.0.0.10
			DNS_SERVICE_PORT=53
			DNS_SERVICE_PORT_123_ABC=9
			DNS_SERVICE_PORT_DNS=53
			DNS_SERVICE_PORT_DNS_TCP=53`)},
		{"IPv6", []*corev1.Service{service("default", "six", "fd00::1", port("", 80, tcp))}, envvars.Options{}, lines(`
			SIX_PORT=tcp://[fd00::1]:80
			SIX_PORT_80_TCP=tcp://[fd00::1]:80
			SIX_PORT_80_TCP_ADDR=fd00::1
			SIX_PORT_80_TCP_PORT=80
			SIX_PORT_80_TCP_PROTO=tcp
			SIX_SERVICE_HOST=fd00::1
			SIX_SERVICE_PORT=80`)},
		{"without an address", []*corev1.Service{
			service("default", "headless", "None", port("", 80, tcp)), service("default", "pending", "", port("", 80, tcp)),
			service("default", "portless", "10.0.0.1"), external,
		}, envvars.Options{}, nil},
		{"another namespace", []*corev1.Service{service("prod", "web", "10.0.0.1", port("", 80, tcp)), api}, envvars.Options{Namespace: "test"}, apiLines},
		{"without links", []*corev1.Service{service("test", "web", "10.0.0.1", port("", 80, tcp)), api}, envvars.Options{Namespace: "test", NoServiceLinks: true}, apiLines},
		{"own kubernetes wins", []*corev1.Service{service("test", "kubernetes", "10.96.0.1", port("https", 443, tcp)), service("default", "kubernetes", "10.9.9.9", port("", 1, tcp))}, envvars.Options{Namespace: "test"}, apiLines},
		{"own kubernetes wins, in the other order", []*corev1.Service{service("default", "kubernetes", "10.9.9.9", port("", 1, tcp)), service("test", "kubernetes", "10.96.0.1", port("https", 443, tcp))}, envvars.Options{Namespace: "test"}, apiLines},
		{"headless kubernetes does not", []*corev1.Service{service("test", "kubernetes", "None", port("https", 443, tcp)), api}, envvars.Options{Namespace: "test"}, apiLines},
		{"selected", []*corev1.Service{service("default", "b", "10.0.0.1", port("", 80, tcp)), api}, envvars.Options{Selector: selector}, apiLines},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := envvars.Render(test.services, test.options)
			if !slices.Equal(env.Lines, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(env.Lines, "\n"), strings.Join(test.want, "\n"))
			}
			if len(env.Warnings) != 0 {
				t.Errorf("warnings: %q", env.Warnings)
			}
			checkVariables(t, env)
		})
	}
}

func lines(text string) []string { return strings.Fields(text) }

type fataler interface{ Fatalf(string, ...any) }

func checkVariables(t fataler, env envvars.Environment) {
	if len(env.Variables) != len(env.Lines) {
		t.Fatalf("%d variables, %d lines", len(env.Variables), len(env.Lines))
	}
	for _, line := range env.Lines {
		if name, value, _ := strings.Cut(line, "="); env.Variables[name] != value {
			t.Fatalf("line %q, variable %q", line, env.Variables[name])
		}
	}
}

func TestCollision(t *testing.T) {
	foo := service("default", "foo", "10.0.0.1", port("", 6379, tcp))
	fooService := service("default", "foo-service", "10.0.0.2", port("", 80, tcp))
	for _, services := range [][]*corev1.Service{{foo, fooService}, {fooService, foo}} {
		env := envvars.Render(services, envvars.Options{})
		if got := env.Variables["FOO_SERVICE_PORT"]; got != "6379" {
			t.Errorf("FOO_SERVICE_PORT=%s", got)
		}
		if len(env.Warnings) != 1 || !strings.Contains(env.Warnings[0], `FOO_SERVICE_PORT is of service "foo"; service "foo-service"`) {
			t.Errorf("warnings: %q", env.Warnings)
		}
	}
}

// TestOrderDoesNotMatter draws names that often collide.
func TestOrderDoesNotMatter(t *testing.T) {
	names := []string{"foo", "foo-service", "foo-service-service", "foo-port", "foo-port-80-tcp", "kubernetes"}
	rapid.Check(t, func(t *rapid.T) {
		var services []*corev1.Service
		for i, name := range rapid.Permutation(names).Draw(t, "names") {
			namespace := rapid.SampledFrom([]string{"default", "test"}).Draw(t, "namespace")
			portName := rapid.SampledFrom([]string{"", "80-tcp", "service"}).Draw(t, "port name")
			services = append(services, service(namespace, name, "10.0.0."+string(rune('1'+i)), port(portName, 80, tcp)))
		}
		want := envvars.Render(services, envvars.Options{Namespace: "test"})
		checkVariables(t, want)
		shuffled := rapid.Permutation(services).Draw(t, "order")
		got := envvars.Render(shuffled, envvars.Options{Namespace: "test"})
		if !slices.Equal(got.Lines, want.Lines) || !slices.Equal(got.Warnings, want.Warnings) {
			t.Fatalf("got %q %q\nwant %q %q", got.Lines, got.Warnings, want.Lines, want.Warnings)
		}
	})
}
