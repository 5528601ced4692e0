package model

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// World holds the objects that the registry has acknowledged.
type World struct {
	mu      sync.Mutex
	objects map[object.Key]object.Object
}

// New returns a world without objects.
func New() *World { return &World{objects: map[object.Key]object.Object{}} }

// Put adds an object as the registry has stored it.
func (w *World) Put(o object.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[object.KeyOf(o)] = o
}

// Delete removes an object.
func (w *World) Delete(key object.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.objects, key)
}

// Get returns an object, or nil if it does not exist.
func (w *World) Get(key object.Key) object.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects[key]
}

// Of returns the objects of one type, ordered by namespace and name.
func Of[T object.Object](w *World) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []T
	for _, key := range slices.SortedFunc(maps.Keys(w.objects), object.Compare) {
		if o, ok := w.objects[key].(T); ok {
			all = append(all, o)
		}
	}
	return all
}

// Lines are facts by object.
type Lines map[object.Key][]string

func (l Lines) add(about object.Object, format string, args ...any) {
	key := object.KeyOf(about)
	l[key] = append(l[key], fmt.Sprintf(format, args...))
}

// Compact removes duplicate lines.
func (l Lines) Compact() {
	for key, lines := range l {
		slices.Sort(lines)
		l[key] = slices.Compact(lines)
	}
}

// Objects returns the existing objects with their versions.
func (w *World) Objects() Lines {
	lines := Lines{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, o := range w.objects {
		lines[key] = []string{Version(o)}
	}
	return lines
}

// Version returns the line of an object in Objects.
func Version(o object.Object) string {
	return fmt.Sprintf("%s at revision %d", o.GetMetadata().GetUid(), o.GetMetadata().GetResourceVersion())
}

// endpoint is an endpoint of a service.
type endpoint struct {
	address netip.Addr
	ready   bool
	pod     *corev1.Pod // nil if a person wrote the slice
	node    string
	ports   []endpointPort
}

type endpointPort struct {
	name     string
	number   int32
	protocol corev1.Protocol
}

func (p endpointPort) String() string {
	return fmt.Sprintf("%s:%d/%s", p.name, p.number, Protocol(p.protocol))
}

// Protocol returns the usual name of a protocol, such as TCP.
func Protocol(p corev1.Protocol) string { return strings.TrimPrefix(p.String(), "PROTOCOL_") }

// endpoints returns the endpoints of a service.
func (w *World) endpoints(svc *corev1.Service) []endpoint {
	if IsExternalName(svc) {
		return nil
	}
	if len(svc.GetSpec().GetSelector()) == 0 {
		return w.written(svc)
	}
	var found []endpoint
	for _, pod := range Of[*corev1.Pod](w) {
		if pod.GetMetadata().GetNamespace() == svc.GetMetadata().GetNamespace() && selects(svc, pod) {
			found = append(found, ofPod(svc, pod)...)
		}
	}
	return found
}

func selects(svc *corev1.Service, pod *corev1.Pod) bool {
	for key, value := range svc.GetSpec().GetSelector() {
		if have, ok := pod.GetMetadata().GetLabels()[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// ofPod returns a pod's endpoints, one for each family of the service.
func ofPod(svc *corev1.Service, pod *corev1.Pod) []endpoint {
	ready := svc.GetSpec().GetPublishNotReadyAddresses() || object.IsReady(pod.GetStatus().GetConditions())
	var ports []endpointPort
	for _, p := range svc.GetSpec().GetPorts() {
		ports = append(ports, endpointPort{p.GetName(), p.GetTargetPort().GetNumber(), p.GetProtocol()})
	}
	var found []endpoint
	for _, text := range pod.GetStatus().GetPodIps() {
		addr := netip.MustParseAddr(text)
		if slices.Contains(svc.GetSpec().GetIpFamilies(), familyOf(addr)) {
			found = append(found, endpoint{addr, ready, pod, pod.GetSpec().GetNodeName(), ports})
		}
	}
	return found
}

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPFamily_IP_FAMILY_IPV4
	}
	return corev1.IPFamily_IP_FAMILY_IPV6
}

// written returns the endpoints of slices that people wrote for a service.
func (w *World) written(svc *corev1.Service) []endpoint {
	var found []endpoint
	for _, slice := range Of[*corev1.EndpointSlice](w) {
		meta := slice.GetMetadata()
		if meta.GetNamespace() != svc.GetMetadata().GetNamespace() || meta.GetLabels()[object.LabelServiceName] != svc.GetMetadata().GetName() {
			continue
		}
		var ports []endpointPort
		for _, p := range slice.GetPorts() {
			ports = append(ports, endpointPort{p.GetName(), p.GetPort(), p.GetProtocol()})
		}
		for _, ep := range slice.GetEndpoints() {
			given := ep.GetConditions()
			ready := given == nil || given.Ready == nil || given.GetReady()
			found = append(found, endpoint{netip.MustParseAddr(ep.GetAddresses()[0]), ready, nil, ep.GetNodeName(), ports})
		}
	}
	return found
}

// IsExternalName reports whether a service is an alias.
func IsExternalName(svc *corev1.Service) bool {
	return svc.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME
}
