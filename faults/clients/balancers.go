package clients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

const (
	// balancerServices is the number of services of a balancerOwner.
	balancerServices = 6
	// balancerPauses is the number of think times between two writes of a balancerOwner. lbctl and the agents make
	// several writes and changes for each of them.
	balancerPauses = 4
)

// balancerOwner writes services of type LoadBalancer. Some of them request an address, out of so few that they often
// request the address of another one. Its calls are not among the calls of the history, because lbctl writes the
// same objects, and a deleted one stays until lbctl has given back its address.
type balancerOwner struct {
	registry    registry
	random      *rand.Rand
	recorder    *history.Recorder
	requested   []string // addresses to request
	thinkTime   time.Duration
	callTimeout time.Duration
}

// run writes until ctx is done.
func (b *balancerOwner) run(ctx context.Context) {
	for app.Pause(ctx, balancerPauses*b.thinkTime) {
		if transient(b.write(ctx)) {
			b.recorder.NoteUnknownWrite()
		}
	}
}

// write creates, changes or deletes a service. It is refused if the service does not exist, or exists already.
func (b *balancerOwner) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.callTimeout)
	defer cancel()
	svc := b.service(b.random.IntN(balancerServices))
	var err error
	switch n := b.random.IntN(10); {
	case n < 5:
		_, err = writeObject(ctx, b.registry, "Create", svc)
	case n < 8:
		_, err = deleteObject(ctx, b.registry, object.KeyOf(svc), "", 0)
	default:
		err = b.changePort(ctx, svc)
	}
	return err
}

// changePort gives a service another port.
func (b *balancerOwner) changePort(ctx context.Context, wanted *corev1.Service) error {
	stored, err := getObject(ctx, b.registry, object.KeyOf(wanted), 0)
	if err != nil {
		return err
	}
	svc, _ := object.Clone(stored).(*corev1.Service)
	svc.Spec.Ports[0].Port = wanted.GetSpec().GetPorts()[0].GetPort()
	_, err = writeObject(ctx, b.registry, "Update", svc)
	return err
}

func (b *balancerOwner) service(n int) *corev1.Service {
	no := false
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: Namespace, Name: fmt.Sprintf("balanced-%d", n), Annotations: map[string]string{}},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, AllocateLoadBalancerNodePorts: &no,
			Ports: []*corev1.ServicePort{{Name: "http", Port: int32(80 + b.random.IntN(3)), Protocol: corev1.Protocol_PROTOCOL_TCP}},
		},
	}
	if len(b.requested) > 0 && b.random.IntN(2) == 0 {
		svc.Metadata.Annotations[object.AnnotationBalancerIPs] = b.requested[b.random.IntN(len(b.requested))]
	}
	return svc
}
