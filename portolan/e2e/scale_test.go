package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
)

// TestTenThousandServices applies ten thousand services in one run and reads every one back by
// name.
func TestTenThousandServices(t *testing.T) {
	const n = 10_000
	i := install(t)
	var manifest strings.Builder
	for k := range n {
		fmt.Fprintf(&manifest, "---\n{apiVersion: v1, kind: Service, metadata: {name: s%d}, spec: {ports: [{port: 80}]}}\n", k)
	}
	if created := strings.Count(i.apply(manifest.String()), " created"); created != n {
		t.Fatalf("%d created, want %d", created, n)
	}
	services := i.services()
	if len(services) != n {
		t.Fatalf("the registry has %d services, want %d", len(services), n)
	}
	used := map[string]string{}
	for _, service := range services {
		ip, name := service.GetSpec().GetClusterIp(), service.GetMetadata().GetName()
		if other, twice := used[ip]; twice {
			t.Errorf("%s and %s both have %s", name, other, ip)
		}
		used[ip] = name
	}
	i.askForAll(services)
}

func (i *installation) services() []*corev1.Service {
	i.Helper()
	client := registryv1.NewServiceServiceClient(i.dial(7400))
	request := &registryv1.ListServicesRequest{PageSize: 1000}
	var services []*corev1.Service
	for {
		page, err := client.ListServices(i.Context(), request)
		if err != nil {
			i.Fatal(err)
		}
		services = append(services, page.GetServices()...)
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return services
		}
	}
}

// askForAll compares the address of every service with the name server's answer. The name server
// follows the registry with a small delay.
func (i *installation) askForAll(services []*corev1.Service) {
	i.Helper()
	for _, service := range services {
		i.awaitAnswer(service.GetMetadata().GetName()+".default.svc.cluster.local", dns.TypeA, answers("A "+service.GetSpec().GetClusterIp()))
	}
}
