package main

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

const (
	namespace = object.DefaultNamespace
	nodes     = 100
)

// sizes are the numbers of pods of an installation's services.
type sizes []int

// uniform returns the sizes of services that have the same number of pods.
func uniform(services, pods int) sizes { return slices.Repeat(sizes{pods}, services) }

// pods returns the number of all pods.
func (s sizes) pods() int {
	n := 0
	for _, pods := range s {
		n += pods
	}
	return n
}

func serviceName(i int) string { return fmt.Sprintf("svc-%05d", i) }

func podName(service, i int) string { return fmt.Sprintf("%s-%04d", serviceName(service), i) }

// service returns a service with a virtual IP, as the registry would store it.
func service(i int) *corev1.Service {
	name := serviceName(i)
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": name, "team": "payments"}},
		Spec: &corev1.ServiceSpec{
			ClusterIp: fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250), Selector: map[string]string{"app": name},
			Ports: []*corev1.ServicePort{{Name: "http", Port: 80, TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: 8080}}}},
		},
	}
}

// pod returns a pod of a service. Its address has the given number.
func pod(name string, service, address int) *corev1.Pod {
	app := serviceName(service)
	return &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": app, "team": "payments"}},
		Spec: &corev1.PodSpec{
			NodeName:   fmt.Sprintf("node-%03d", address%nodes),
			Containers: []*corev1.Container{{Name: "web", Ports: []*corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}},
		},
		Status: status(address, true),
	}
}

// status returns the status of a pod. Its readiness has changed now.
func status(address int, ready bool) *corev1.PodStatus {
	state := corev1.ConditionStatus_CONDITION_STATUS_FALSE
	if ready {
		state = corev1.ConditionStatus_CONDITION_STATUS_TRUE
	}
	return &corev1.PodStatus{
		Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: fmt.Sprintf("10.%d.%d.%d", 128+address>>16, address>>8&255, address&255),
		Conditions: []*corev1.Condition{{Type: object.ConditionReady, Status: state, LastTransitionTime: timestamppb.Now()}},
	}
}

// objects yields the nodes, the services and their pods.
func objects(n sizes) iter.Seq[object.Object] {
	return func(yield func(object.Object) bool) {
		for o := range bare(n) {
			kinds.Of(o).Default(o)
			if !yield(o) {
				return
			}
		}
	}
}

// bare yields the objects without defaults.
func bare(n sizes) iter.Seq[object.Object] {
	return func(yield func(object.Object) bool) {
		for i := range nodes {
			if !yield(node(i)) {
				return
			}
		}
		address := 1
		for i, pods := range n {
			if !yield(service(i)) {
				return
			}
			for k := range pods {
				if !yield(pod(podName(i, k), i, address)) {
					return
				}
				address++
			}
		}
	}
}

func node(i int) *corev1.Node {
	return &corev1.Node{
		Metadata: &corev1.ObjectMeta{Name: fmt.Sprintf("node-%03d", i), Labels: map[string]string{object.LabelZone: fmt.Sprintf("zone-%d", i%3)}},
		Status: &corev1.NodeStatus{Conditions: []*corev1.Condition{{
			Type: object.ConditionReady, Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE, LastTransitionTime: timestamppb.New(time.Unix(1_800_000_000, 0)),
		}}},
	}
}
