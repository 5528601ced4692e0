package kube

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "portolan.dev/api/core/v1"
)

// Annotations for the fields that Portolan has and Kubernetes lacks.
const (
	AnnotationScheduler      = "portolan.dev/scheduler"       // of a Service: rr, lc, dh, sh, sed, nq or mh
	AnnotationSchedulerFlags = "portolan.dev/scheduler-flags" // of a Service: sh-port,sh-fallback
	AnnotationDrainTimeout   = "portolan.dev/drain-timeout"   // of a Service: seconds
	// AnnotationWeight is the weight of a Pod (0-65535) or of an EndpointSlice (one such number, or
	// address=weight,…).
	AnnotationWeight = "portolan.dev/weight"
	// AnnotationReadinessTTL has the ttl checks of a Pod as container=seconds,… A container with such a
	// check has a readinessProbe without a handler, or none.
	AnnotationReadinessTTL = "portolan.dev/readiness-ttl"
	AnnotationProxyMode    = "portolan.dev/proxy-mode"    // of a Node: reported by its agent
	AnnotationAgentAddress = "portolan.dev/agent-address" // of a Node: reported by its agent
	AnnotationEpoch        = "portolan.dev/epoch"         // of a Lease: its fencing epoch
	AnnotationShards       = "portolan.dev/shards"        // of a Lease: number of shards of the task
)

// takeAnnotation removes an annotation from the metadata and returns its value.
func takeAnnotation(meta *corev1.ObjectMeta, name string) (string, bool) {
	value, ok := meta.Annotations[name]
	if !ok {
		return "", false
	}
	delete(meta.Annotations, name)
	meta.Annotations = nonEmpty(meta.Annotations)
	return strings.TrimSpace(value), true
}

func put(meta *metav1.ObjectMeta, name, value string) {
	if value == "" {
		return
	}
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[name] = value
}

func annotationPath(name string) string { return "metadata.annotations[" + name + "]" }

// takeNumber removes an annotation and returns its number. It returns nil if there is none.
func (r *reader) takeNumber(meta *corev1.ObjectMeta, name string, most uint64) *uint64 {
	text, ok := takeAnnotation(meta, name)
	if !ok {
		return nil
	}
	number, ok := r.number(name, text, most)
	if !ok {
		return nil
	}
	return &number
}

func (r *reader) number(annotation, text string, most uint64) (uint64, bool) {
	number, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil || number > most {
		r.invalid(annotationPath(annotation), text, fmt.Sprintf("must be a whole number between 0 and %d", most))
		return 0, false
	}
	return number, true
}

const maxWeight = 65535

// sliceWeights sets the weights of endpoints from one number for all, or from "address=weight"
// pairs.
func (r *reader) sliceWeights(slice *corev1.EndpointSlice) {
	text, ok := takeAnnotation(slice.Metadata, AnnotationWeight)
	if !ok {
		return
	}
	if !strings.Contains(text, "=") {
		if weight, ok := r.number(AnnotationWeight, text, maxWeight); ok {
			for _, endpoint := range slice.Endpoints {
				endpoint.Weight = new(uint32(weight))
			}
		}
		return
	}
	byAddress := map[string]*corev1.Endpoint{}
	for _, endpoint := range slice.Endpoints {
		for _, address := range endpoint.GetAddresses() {
			byAddress[address] = endpoint
		}
	}
	for entry := range strings.SplitSeq(text, ",") {
		address, weightText, _ := strings.Cut(entry, "=")
		endpoint := byAddress[strings.TrimSpace(address)]
		if endpoint == nil {
			r.invalid(annotationPath(AnnotationWeight), entry, "names an address that no endpoint has")
			continue
		}
		if weight, ok := r.number(AnnotationWeight, weightText, maxWeight); ok {
			endpoint.Weight = new(uint32(weight))
		}
	}
}

func writeWeights(meta *metav1.ObjectMeta, endpoints []*corev1.Endpoint) {
	var entries []string
	for _, endpoint := range endpoints {
		if endpoint.Weight != nil && len(endpoint.GetAddresses()) > 0 {
			entries = append(entries, fmt.Sprintf("%s=%d", endpoint.Addresses[0], *endpoint.Weight))
		}
	}
	put(meta, AnnotationWeight, strings.Join(entries, ","))
}

// readinessTTLs sets the ttl checks of a pod's containers from "container=seconds" pairs.
func (r *reader) readinessTTLs(pod *corev1.Pod) {
	text, ok := takeAnnotation(pod.Metadata, AnnotationReadinessTTL)
	if !ok {
		return
	}
	byName := map[string]*corev1.Container{}
	for _, container := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		byName[container.GetName()] = container
	}
	for entry := range strings.SplitSeq(text, ",") {
		name, seconds, _ := strings.Cut(entry, "=")
		container := byName[strings.TrimSpace(name)]
		if container == nil {
			r.invalid(annotationPath(AnnotationReadinessTTL), entry, "names a container that the pod does not have: write container=seconds")
			continue
		}
		if container.GetReadinessProbe().GetHandler() != nil {
			r.invalid(annotationPath(AnnotationReadinessTTL), entry, "names a container with another readiness probe: leave one of them out")
			continue
		}
		if ttl, ok := r.number(AnnotationReadinessTTL, seconds, math.MaxInt32); ok {
			if container.ReadinessProbe == nil {
				container.ReadinessProbe = &corev1.Probe{}
			}
			container.ReadinessProbe.Handler = &corev1.Probe_Ttl{Ttl: &corev1.TTLAction{Seconds: int32(ttl)}} // #nosec G115 -- number has the limit
		}
	}
}

func writeReadinessTTLs(meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
	var entries []string
	for _, container := range slices.Concat(spec.GetContainers(), spec.GetInitContainers()) {
		if ttl := container.GetReadinessProbe().GetTtl(); ttl != nil && container.GetName() != "" {
			entries = append(entries, fmt.Sprintf("%s=%d", container.GetName(), ttl.GetSeconds()))
		}
	}
	put(meta, AnnotationReadinessTTL, strings.Join(entries, ","))
}
