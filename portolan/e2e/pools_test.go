package e2e

import (
	"fmt"
	"strings"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// TestPools takes a second range into use and the first one out of use, on the command line.
func TestPools(t *testing.T) {
	i := install(t)
	expect := func(out string, parts ...string) {
		t.Helper()
		if err := lacks(strings.Join(strings.Fields(out), " "), parts...); err != nil {
			t.Error(err)
		}
	}
	refused := func(part string, args ...string) {
		t.Helper()
		if out, errOut, err := i.try("", args...); err == nil || !strings.Contains(errOut, part) {
			t.Errorf("portolan %s: %v\n%s%s\nwant an error with %q", strings.Join(args, " "), err, out, errOut, part)
		}
	}
	service := func(name string) string {
		return "{apiVersion: v1, kind: Service, metadata: {name: " + name + "}, spec: {ports: [{port: 80}]}}"
	}
	before := i.portolan("get", "pools", "-o", "yaml")
	refused("overlaps pool", "pool", "create", "more", "--use", "cluster-ip", "--range", i.network.IP("64.0/24"))
	refused("address of node", "pool", "create", "more", "--use", "cluster-ip", "--range", i.network.IP("0.0/24"))
	if after := i.portolan("get", "pools", "-o", "yaml"); after != before {
		t.Errorf("refused changes changed the pools from\n%s\nto\n%s", before, after)
	}
	i.apply(service("first"))
	expect(i.portolan("pool", "create", "more", "--use", "cluster-ip", "--range", i.network.IP("192.0/28")), "pool/more created:", "none of 14 values in use")
	expect(i.portolan("pool", "resize", "more", i.network.IP("192.0/24")), "none of 254 values in use, static band of 16")
	expect(i.portolan("pool", "drain", "service-ipv4"), "pool/service-ipv4 is draining")
	i.apply(service("second"))
	if vip := i.vip("second"); !strings.HasPrefix(vip, i.network.IP("192.")) {
		t.Errorf("the service has %s, want an address of the second pool", vip)
	}
	kittest.Eventually(t, "the second pool has one value in use", func() error { // a registry reports it after the create
		out := i.portolan("get", "pool", "more")
		return lacks(strings.Join(strings.Fields(out), " "), "more cluster-ip "+i.network.IP("192.0/24")+" active", " 0/16 1/238 ")
	})
	expect(i.portolan("describe", "pool", "service-ipv4"), "Service default/first, clusterIPs/IPv4", "draining: only values that are asked for")
	i.portolan("pool", "retire", "service-ipv4")
	refused("values in use", "pool", "delete", "service-ipv4")
	i.portolan("delete", "service", "first")
	kittest.Eventually(t, "the retired pool can be deleted", func() error {
		_, _, err := i.try("", "pool", "delete", "service-ipv4")
		return err
	})
	expect(i.portolan("get", "pools", "-o", "name"), "pool/more pool/node-port")
}

// TestNodePortsOfTwoProtocols gives one node port to two services, for different protocols, from a
// pool that allows it.
func TestNodePortsOfTwoProtocols(t *testing.T) {
	i := install(t)
	i.portolan("pool", "create", "split", "--use", "node-port", "--range", "34000-34099", "--per-protocol")
	service := func(name, protocol string, nodePort int) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {type: NodePort, selector: {app: %s}, ports: [{port: 8053, protocol: %s, nodePort: %d}]}}",
			name, name, protocol, nodePort)
	}
	i.apply(service("web", "TCP", 34053))
	i.apply(service("dns", "UDP", 34053))
	i.apply(service("shared", "TCP", 30053))
	for name, part := range map[string]string{service("late", "UDP", 34053): "already allocated for UDP", service("late", "UDP", 30053): "already allocated"} {
		if out, errOut, err := i.try(name, "apply", "-f", "-"); err == nil || !strings.Contains(errOut, part) {
			t.Errorf("%v\n%s%s\nwant an error with %q", err, out, errOut, part)
		}
	}
	i.hello("w1", "app=web", "http", 8053)
	i.awaitBackends("web", 1)
	if name, err := get(i.network.Addr("0.1", 34053)); err != nil || name != "w1" {
		t.Errorf("the node port for TCP: %q, %v", name, err)
	}
	for _, name := range []string{"web", "dns"} {
		out, _, _ := i.try("", "explain", "service", name)
		if !strings.Contains(out, "34053/") || strings.Contains(out, "is also in service") || strings.Contains(out, "not allocated") {
			t.Errorf("explain service %s:\n%s", name, out)
		}
	}
	i.portolan("delete", "service", "dns")
	i.apply(service("late", "UDP", 34053))
	out := strings.Join(strings.Fields(i.portolan("describe", "pool", "split")), " ")
	if err := lacks(out, "Service default/web", "34053/TCP confirmed", "34053/UDP", "TCP, UDP and SCTP have numbers of their own"); err != nil {
		t.Error(err)
	}
}
