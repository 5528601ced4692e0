package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Verb is the type of a write.
type Verb string

// The verbs.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// Step is one write.
type Step struct {
	Verb   Verb
	Object object.Object // for a deletion only the name is used
}

// Sizes of an actor's world. They are small, so that names and addresses are soon used again.
const (
	serviceNames  = 6
	podNames      = 8
	podAddresses  = 12
	sliceNames    = 3
	clusterIPs    = 4
	externalIPs   = 2
	nodePorts     = 3
	manualService = "m" // first letter of services without a selector
)

// Actor generates the writes of one namespace.
type Actor struct {
	number   int
	random   *rand.Rand
	nodes    []string
	services map[string]*corev1.Service
	pods     map[string]*corev1.Pod
	slices   map[string]*corev1.EndpointSlice
}

// NewActor returns an actor. Its number, below 40, determines its names and addresses. nodes are
// the names of the nodes of its pods.
func NewActor(seed uint64, number int, nodes []string) *Actor {
	return &Actor{
		number: number, random: rand.New(rand.NewPCG(seed, uint64(number))), nodes: nodes,
		services: map[string]*corev1.Service{}, pods: map[string]*corev1.Pod{}, slices: map[string]*corev1.EndpointSlice{},
	}
}

// Namespace returns the namespace of all objects of the actor.
func (a *Actor) Namespace() string { return fmt.Sprintf("churn-%d", a.number) }

// Next generates some writes, which must be made in order.
func (a *Actor) Next() []Step {
	switch n := a.random.IntN(100); {
	case n < 20:
		return a.toggleService(a.serviceName())
	case n < 30:
		return a.changeService(a.serviceName())
	case n < 42:
		return a.remakeService(a.serviceName())
	case n < 54:
		return a.handOver(a.serviceName(), a.serviceName())
	case n < 66:
		return a.togglePod(a.podName())
	case n < 80:
		return a.changePod(a.podName())
	case n < 88:
		return a.remakePod(a.podName())
	default:
		return a.nextSlice(fmt.Sprintf("slice-%d", a.random.IntN(sliceNames)))
	}
}

func (a *Actor) podName() string { return fmt.Sprintf("pod-%d", a.random.IntN(podNames)) }

func (a *Actor) chance(percent int) bool { return a.random.IntN(100) < percent }

// pick returns a random value that is not in use. It returns false if all are.
func pick[T comparable](a *Actor, all, used []T) (T, bool) {
	free := slices.DeleteFunc(all, func(v T) bool { return slices.Contains(used, v) })
	if len(free) == 0 {
		var none T
		return none, false
	}
	return free[a.random.IntN(len(free))], true
}

func (a *Actor) meta(name string) *corev1.ObjectMeta {
	return &corev1.ObjectMeta{Namespace: a.Namespace(), Name: name}
}
