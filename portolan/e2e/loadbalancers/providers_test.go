package loadbalancers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/lbctl"
	"portolan.dev/lbctl/providertest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

const metal = "example.com/metal"

// provider is a provider of another program, at an address of its own.
type provider struct {
	*providertest.Fake
	t    *testing.T
	addr string
	stop func()
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{Fake: providertest.NewFake(), t: t, addr: freeAddr(t)}
	p.start()
	return p
}

// start serves the provider. After a restart it still has the load balancers that it has made.
func (p *provider) start() {
	p.t.Helper()
	p.stop = kittest.Run(p.t, "provider", func(ctx context.Context) error {
		server := grpc.NewServer()
		loadbalancerv1.RegisterLoadBalancerProviderServiceServer(server, p.Fake)
		lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.addr)
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, server.Stop)()
		return server.Serve(lis)
	})
}

// serves returns a change of lbctl's configuration that adds a provider.
func (p *provider) serves(class string) func(*lbctl.Config) {
	return func(c *lbctl.Config) {
		c.Providers = append(c.Providers, lbctl.ProviderAddress{Class: class, Addr: p.addr})
	}
}

func class(name string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = &name }
}

// awaitBalancers waits until a provider has load balancers with exactly these nodes.
func (p *provider) awaitBalancers(want ...[]string) {
	p.t.Helper()
	kittest.Eventually(p.t, fmt.Sprintf("load balancers with the nodes %v", want), func() error {
		var got [][]string
		for _, b := range p.Balancers() {
			got = append(got, b.Nodes)
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			return fmt.Errorf("they have %v", got)
		}
		return nil
	})
}

// TestAClassHasItsOwnProvider has services of two classes with providers, and of one without.
func TestAClassHasItsOwnProvider(t *testing.T) {
	p := newProvider(t)
	i := install(t, p.serves(metal))
	i.create(balanced("plain"))
	i.create(balanced("metal", class(metal)))
	i.create(balanced("named", class("portolan.dev/pool")))
	i.create(balanced("nobody", class("example.com/none")))
	i.awaitExactly("metal", "203.0.113.1")
	plain, named := i.awaitAddresses("plain", 1)[0], i.awaitAddresses("named", 1)[0]
	i.awaitAllocations(plain+" Service CONFIRMED", named+" Service CONFIRMED")
	i.awaitReason("nobody", "NoProvider", "known are example.com/metal, portolan.dev/edge, portolan.dev/pool")
	i.awaitEvent("nobody", "LoadBalancerPending", "example.com/none")
	if svc := i.get("nobody"); spec.HasBalancerFinalizer(svc) {
		t.Errorf("a service that nobody serves has %v", svc.GetMetadata().GetFinalizers())
	}
	i.delete("nobody")
	i.awaitGone("nobody")
	i.delete("metal")
	i.awaitGone("metal")
	p.awaitBalancers()
}

// TestNodesOfAProvider changes which nodes may receive traffic.
func TestNodesOfAProvider(t *testing.T) {
	p := newProvider(t)
	i := install(t, p.serves(metal))
	nodes := registryv1.NewNodeServiceClient(i.dial("registry"))
	node := func(name string, change ...func(*corev1.Node)) {
		t.Helper()
		n := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name, Labels: map[string]string{}}, Spec: &corev1.NodeSpec{}}
		for _, c := range change {
			c(n)
		}
		kittest.Eventually(t, "node "+name, func() error {
			_, err := nodes.CreateNode(t.Context(), &registryv1.CreateNodeRequest{Node: n})
			if status.Code(err) == codes.AlreadyExists {
				_, err = nodes.UpdateNode(t.Context(), &registryv1.UpdateNodeRequest{Node: n})
			}
			return err
		})
	}
	node("n1")
	node("n2", func(n *corev1.Node) {
		n.Metadata.Labels["node.kubernetes.io/exclude-from-external-load-balancers"] = ""
	})
	i.create(balanced("web", class(metal)))
	p.awaitBalancers([]string{"n1"})
	node("n3")
	p.awaitBalancers([]string{"n1", "n3"})
	node("n1", func(n *corev1.Node) {
		n.Spec.Taints = []*corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: "NoSchedule"}}
	})
	node("n2")
	p.awaitBalancers([]string{"n2", "n3"})
}

// TestAProviderThatDiesInTheMiddleLeaksNothing kills a provider after it has made a load balancer and
// before it answers, restarts lbctl meanwhile, and deletes the service.
func TestAProviderThatDiesInTheMiddleLeaksNothing(t *testing.T) {
	p := newProvider(t)
	reached := make(chan struct{}, 100)
	p.Fail(nil, func(ctx context.Context, call, _ string) (bool, error) {
		if call != "Ensure" {
			return false, nil
		}
		reached <- struct{}{}
		<-ctx.Done() // until the connection is gone
		return false, ctx.Err()
	})
	i := install(t, p.serves(metal))
	i.create(balanced("kept", class(metal)))
	i.create(balanced("deleted", class(metal)))
	<-reached
	<-reached
	if n := len(p.Balancers()); n != 2 {
		t.Fatalf("%d load balancers are made", n)
	}
	p.stop()
	i.awaitReason("kept", "ProviderUnavailable", "")
	if svc := i.get("kept"); !spec.HasBalancerFinalizer(svc) || addresses(svc) != nil {
		t.Errorf("in the middle the service is %v", svc)
	}
	i.delete("deleted")
	i.stopLBCtl()
	i.startLBCtl(p.serves(metal))
	p.Fail(nil, nil)
	p.start()
	i.awaitGone("deleted")
	i.awaitAddresses("kept", 1)
	if n := len(p.Balancers()); n != 1 {
		t.Errorf("%d load balancers are left", n)
	}
	i.delete("kept")
	i.awaitGone("kept")
	p.awaitBalancers()
}

// TestAProviderThatHangsIsGivenUp lets the calls for one service hang. Others are served meanwhile.
func TestAProviderThatHangsIsGivenUp(t *testing.T) {
	p := newProvider(t)
	p.Fail(func(ctx context.Context, _, service string) (bool, error) {
		if service == "hangs" {
			<-ctx.Done()
		}
		return false, ctx.Err()
	}, nil)
	i := install(t, p.serves(metal), func(c *lbctl.Config) { c.ProviderTimeout = 300 * time.Millisecond })
	i.create(balanced("hangs", class(metal)))
	i.create(balanced("web", class(metal)))
	i.awaitAddresses("web", 1)
	i.awaitReason("hangs", "ProviderUnavailable", "deadline")
	i.awaitEvent("hangs", "SyncLoadBalancerFailed", "deadline")
	p.Fail(nil, nil)
	i.awaitAddresses("hangs", 1)
	i.awaitReason("hangs", "Ensured", metal)
}

// TestAPendingProviderIsAskedAgain has a provider that needs several calls, and refuses afterwards.
func TestAPendingProviderIsAskedAgain(t *testing.T) {
	p := newProvider(t)
	pending := func(context.Context, string, string) (bool, error) { return true, nil }
	p.Fail(pending, nil)
	i := install(t, p.serves(metal))
	i.create(balanced("web", class(metal)))
	i.awaitReason("web", "Pending", metal)
	i.awaitEvent("web", "LoadBalancerPending", "still making")
	p.Fail(nil, nil)
	i.awaitExactly("web", "203.0.113.1")

	p.Fail(func(context.Context, string, string) (bool, error) { return false, errors.New("out of order") }, nil)
	i.update("web", port(81))
	i.awaitReason("web", "ProviderFailed", "out of order")
	i.awaitExactly("web", "203.0.113.1") // the address stays
	p.Fail(pending, nil)
	i.delete("web")
	i.awaitEvent("web", "SyncLoadBalancerFailed", "still deleting")
	p.Fail(nil, nil)
	i.awaitGone("web")
}

// TestAnotherClassMovesTheLoadBalancer gives a service another class by way of another type, while lbctl is
// stopped, and deletes a service after its provider was taken out of the configuration.
func TestAnotherClassMovesTheLoadBalancer(t *testing.T) {
	p := newProvider(t)
	i := install(t, p.serves(metal))
	i.create(balanced("moves", class(metal)))
	i.create(balanced("orphan", class(metal)))
	i.awaitAddresses("moves", 1)
	i.awaitAddresses("orphan", 1)
	i.stopLBCtl()
	i.update("moves", func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP })
	i.update("moves", func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER })
	i.startLBCtl(p.serves(metal))
	kittest.Eventually(t, "an address of the pool", func() error {
		svc := i.get("moves")
		if got := addresses(svc); len(got) != 1 || got[0][:4] != "192." || svc.GetMetadata().GetAnnotations()[object.AnnotationBalancerProvider] != "portolan.dev/pool" {
			return fmt.Errorf("it is %v", svc)
		}
		return nil
	})
	if n := len(p.Balancers()); n != 1 {
		t.Errorf("the provider has %d load balancers, want that of the other service", n)
	}
	i.stopLBCtl()
	i.startLBCtl()
	i.delete("orphan")
	i.awaitEvent("orphan", "SyncLoadBalancerFailed", `the class "example.com/metal", which made it, is not configured`)
	if i.get("orphan") == nil {
		t.Error("the service is gone, and its load balancer is not")
	}
}
