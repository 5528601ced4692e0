package sim

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// serviceCount is the number of service names. There are few, so that clients write the same
// services.
const serviceCount = 5

// serviceCall is a client's call that creates, updates or deletes a service.
type serviceCall struct {
	client, registry string
	verb             history.Verb
	service          *corev1.Service
	conditional      bool // whether the call requires the version in the newest reply
	dryRun           bool
	timeout          time.Duration
}

// drawServiceWrites adds the calls of a client. The pauses between them are random, and some are
// below 3 ms.
func drawServiceWrites(g *generator, client string, length time.Duration) {
	for at, n := firstWrite, 0; at < length; n++ {
		c := drawServiceCall(g, client, n)
		g.add(at, func(w *world) { w.cluster.call(c) }, "%s", c)
		at += pick(g, g.upTo(3*time.Millisecond), g.upTo(80*time.Millisecond), g.upTo(time.Second), g.upTo(4*time.Second))
	}
}

func drawServiceCall(g *generator, client string, n int) serviceCall {
	c := serviceCall{
		client: client, registry: pick(g, registryNames...), conditional: g.chance(30), dryRun: g.chance(4),
		verb:    pick(g, history.Create, history.Create, history.Update, history.Update, history.Update, history.Delete),
		timeout: pick(g, g.upTo(20*time.Millisecond), time.Second, 3*time.Second, 8*time.Second),
	}
	c.service = &corev1.Service{
		Metadata: &corev1.ObjectMeta{
			Namespace: object.DefaultNamespace, Name: fmt.Sprintf("s%d", g.random.IntN(serviceCount)),
			Annotations: map[string]string{history.WriteIDAnnotation: fmt.Sprintf("%s-%d", client, n)},
		},
		Spec: drawServiceSpec(g),
	}
	return c
}

func drawServiceSpec(g *generator) *corev1.ServiceSpec {
	s := &corev1.ServiceSpec{Selector: map[string]string{"app": "any"}}
	switch g.random.IntN(12) {
	case 0:
		s.Type, s.ExternalName = corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME, "elsewhere.example"
		return s
	case 1:
		s.ClusterIp, s.ClusterIps = "None", []string{"None"}
	case 2, 3, 4, 5:
		s.Type = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP
	case 6:
		s.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
	default:
		s.Type = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
	}
	if s.ClusterIp == "" && g.chance(25) {
		ip := serviceRange.Addr()
		for range 1 + g.random.IntN(6) {
			ip = ip.Next()
		}
		s.ClusterIp, s.ClusterIps = ip.String(), []string{ip.String()}
	}
	for i := range 1 + g.random.IntN(2) {
		p := &corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(80 + i), Protocol: corev1.Protocol_PROTOCOL_TCP}
		if s.GetType() != corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP && s.GetClusterIp() != "None" && g.chance(60) {
			p.NodePort = firstNodePort + int32(g.random.IntN(nodePortCount/2))
		}
		s.Ports = append(s.Ports, p)
	}
	return s
}

// String describes the call in the list of events.
func (c serviceCall) String() string {
	text := fmt.Sprintf("%s at %s within %s: %s %s", c.client, c.registry, c.timeout, c.verb, c.service.GetMetadata().GetName())
	if c.verb != history.Delete {
		text += fmt.Sprintf(" %s %v", c.service.GetSpec().GetType(), valuesOf(c.service))
	}
	if c.conditional {
		text += ", conditional"
	}
	if c.dryRun {
		text += ", dry run"
	}
	return text
}

// call starts a call and does not wait for its end.
func (c *cluster) call(s serviceCall) {
	conn, err := c.conn(s.client, s.registry)
	if err != nil {
		c.world.failures = append(c.world.failures, err)
		return
	}
	o := object.Clone(s.service)
	call := history.Call{Client: s.client, Registry: s.registry, Verb: s.verb, Key: object.KeyOf(o)}
	if s.verb != history.Delete {
		call.WriteID = o.GetMetadata().GetAnnotations()[history.WriteIDAnnotation]
	}
	if s.conditional && s.verb != history.Create {
		seen := c.lastVersion(o.GetMetadata().GetName())
		call.IfUID, call.IfRevision = seen.UID, seen.Revision
		o.Metadata.Uid, o.Metadata.ResourceVersion = seen.UID, seen.Revision
	}
	end := func(func(*history.Call)) {}
	if !s.dryRun {
		end = c.recorder.BeginCall(call)
	}
	c.clients.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
		defer cancel()
		found, err := callService(ctx, registryv1.NewServiceServiceClient(conn), s, o)
		end(func(h *history.Call) { h.SetOutcome(found, err) })
		c.recordVersion(s, found, err)
	})
}

// callService makes a call and returns the service in the reply, or nil if there is none.
func callService(ctx context.Context, client registryv1.ServiceServiceClient, s serviceCall, o *corev1.Service) (object.Object, error) {
	meta := o.GetMetadata()
	var found *corev1.Service
	var err error
	switch s.verb {
	case history.Create:
		var resp *registryv1.CreateServiceResponse
		resp, err = client.CreateService(ctx, &registryv1.CreateServiceRequest{Service: o, DryRun: s.dryRun})
		found = resp.GetService()
	case history.Update:
		var resp *registryv1.UpdateServiceResponse
		resp, err = client.UpdateService(ctx, &registryv1.UpdateServiceRequest{Service: o, DryRun: s.dryRun})
		found = resp.GetService()
	default:
		var resp *registryv1.DeleteServiceResponse
		resp, err = client.DeleteService(ctx, &registryv1.DeleteServiceRequest{
			Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion(), DryRun: s.dryRun,
		})
		found = resp.GetService()
	}
	if err != nil || found == nil {
		return nil, err
	}
	return found, nil
}

// recordVersion records the version of the service in a reply.
func (c *cluster) recordVersion(s serviceCall, found object.Object, err error) {
	c.world.log.Debug("reply", "call", s.String(), "err", err)
	name := s.service.GetMetadata().GetName()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.dryRun:
	case err == nil && s.verb != history.Delete:
		c.lastVersions[name] = history.VersionOf(found)
	case err == nil || status.Code(err) == codes.NotFound:
		delete(c.lastVersions, name)
	}
}

// lastVersion returns the version of a service in the newest reply.
func (c *cluster) lastVersion(name string) history.Version {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastVersions[name]
}
