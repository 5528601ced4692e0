package nemesis

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
	"google.golang.org/grpc"

	"portolan.dev/faults/lab"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/portolan/e2e/churn/workload"
	corev1 "portolan.dev/proto/portolan/core/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
)

// client is a kind of client that does the same thing again and again.
type client struct {
	*meter
	once func(ctx context.Context) error
}

// Times of clients: how long they wait for an answer, and between two questions.
const (
	clientTimeout = 2 * time.Second
	clientPause   = 50 * time.Millisecond
)

// run works until the context ends.
func (c client) run(ctx context.Context) {
	c.begin()
	defer c.end()
	for ctx.Err() == nil {
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, clientTimeout)
		err := c.once(bounded)
		cancel()
		if ctx.Err() == nil {
			c.note(began, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(clientPause):
		}
	}
}

// The service that clients use. It does not change during a run.
const (
	steadyNamespace = "steady"
	steadyName      = "web"
	steadyIP        = "10.96.0.5"
	steadyNodePort  = 32000
)

// steady makes the service.
func steady() []workload.Step {
	meta := func() *corev1.ObjectMeta { return &corev1.ObjectMeta{Namespace: steadyNamespace, Name: steadyName} }
	name, tcp, number, ready := "http", corev1.Protocol_PROTOCOL_TCP, workload.Ports[0], true
	conditions := &corev1.EndpointConditions{Ready: &ready}
	slice := &corev1.EndpointSlice{
		Metadata: meta(), AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports: []*corev1.EndpointPort{{Name: &name, Protocol: tcp, Port: &number}},
		Endpoints: []*corev1.Endpoint{
			{Addresses: []string{"10.244.250.1"}, Conditions: conditions}, {Addresses: []string{"10.244.250.2"}, Conditions: conditions},
		},
	}
	slice.Metadata.Labels = map[string]string{model.ServiceOf: steadyName}
	svc := &corev1.Service{Metadata: meta(), Spec: &corev1.ServiceSpec{
		Type: corev1.ServiceType_SERVICE_TYPE_NODE_PORT, ClusterIp: steadyIP, ClusterIps: []string{steadyIP},
		Ports: []*corev1.ServicePort{{Name: name, Protocol: tcp, Port: 80, NodePort: steadyNodePort}},
	}}
	return []workload.Step{{Verb: workload.Create, Object: svc}, {Verb: workload.Create, Object: slice}}
}

// clients returns one client of each kind.
func clients(l *lab.Lab) []client {
	all := []client{
		{newMeter("read"), reading(l.DialFrom(l.Clients, "registry-0", "registry-1"))},
	}
	for _, server := range []string{"dnssvc-0", "dnssvc-1"} {
		all = append(all, client{newMeter("name of " + server), asking(l.Clients.Namespace, l.Resolver(server))})
	}
	for _, n := range l.Nodes {
		virtual := netip.AddrPortFrom(netip.MustParseAddr(steadyIP), 80)
		nodePort := netip.AddrPortFrom(n.Addresses[0], steadyNodePort)
		all = append(all,
			client{newMeter(fmt.Sprintf("virtual IP on %s, %s", n.Name, n.ProxyMode)), connecting(n.Namespace, virtual)},
			client{newMeter(fmt.Sprintf("node port of %s, %s", n.Name, n.ProxyMode)), connecting(l.Clients.Namespace, nodePort)})
	}
	return all
}

func reading(registry grpc.ClientConnInterface) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := registryv1.NewServiceServiceClient(registry).GetService(ctx, &registryv1.GetServiceRequest{Namespace: steadyNamespace, Name: steadyName})
		return err
	}
}

func asking(from *topology.Namespace, server netip.AddrPort) func(context.Context) error {
	question := new(dns.Msg).SetQuestion(fmt.Sprintf("%s.%s.svc.%s", steadyName, steadyNamespace, model.Zone), dns.TypeA)
	return func(ctx context.Context) error {
		return from.Do(func() error {
			answer, err := dns.ExchangeContext(ctx, question, server.String())
			if err == nil && len(answer.Answer) != 1 {
				err = fmt.Errorf("%s, %d answers", dns.RcodeToString[answer.Rcode], len(answer.Answer))
			}
			return err
		})
	}
}

func connecting(from *topology.Namespace, to netip.AddrPort) func(context.Context) error {
	return func(ctx context.Context) error {
		return from.Do(func() error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			deadline, _ := ctx.Deadline()
			if err := conn.SetDeadline(deadline); err != nil {
				return err
			}
			_, err = bufio.NewReader(conn).ReadString('\n')
			return err
		})
	}
}
