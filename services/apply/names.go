package apply

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// apiVersions has the version of Kubernetes' API for the paths of a kind's fields. Other kinds have
// "v1".
var apiVersions = map[protoreflect.FullName]string{
	nameOf(&corev1.EndpointSlice{}): "discovery.k8s.io/v1",
	nameOf(&corev1.Lease{}):         "coordination.k8s.io/v1",
}

// apiVersionOf returns the version of Kubernetes' API for the paths of an object's fields.
func apiVersionOf(o object.Object) string {
	if version, ok := apiVersions[nameOf(o)]; ok {
		return version
	}
	return "v1"
}

// elsewhere has the paths of the fields that Kubernetes has at another place. A field that Kubernetes
// lacks has the path of the annotation that represents it in a manifest. The codecs of kubeapi have the
// same annotations; a test there compares them.
var elsewhere = map[protoreflect.FullName]fieldpath.Path{
	nameOf(&corev1.ServiceSpec{}).Append("scheduler"):             annotation("scheduler"),
	nameOf(&corev1.ServiceSpec{}).Append("scheduler_flags"):       annotation("scheduler-flags"),
	nameOf(&corev1.ServiceSpec{}).Append("drain_timeout_seconds"): annotation("drain-timeout"),
	nameOf(&corev1.PodSpec{}).Append("weight"):                    annotation("weight"),
	nameOf(&corev1.Probe{}).Append("ttl"):                         annotation("readiness-ttl"),
	nameOf(&corev1.LeaseSpec{}).Append("epoch"):                   annotation("epoch"),
	nameOf(&corev1.LeaseSpec{}).Append("shards"):                  annotation("shards"),
	nameOf(&corev1.NodeStatus{}).Append("proxy_mode"):             annotation("proxy-mode"),
	nameOf(&corev1.NodeStatus{}).Append("agent_address"):          annotation("agent-address"),
	nameOf(&corev1.NodeStatus{}).Append("agent_version"):          fieldpath.MakePathOrDie("status", "nodeInfo", "kubeletVersion"),
	nameOf(&corev1.NodeStatus{}).Append("kernel_version"):         fieldpath.MakePathOrDie("status", "nodeInfo", "kernelVersion"),
	nameOf(&corev1.Event{}).Append("regarding"):                   fieldpath.MakePathOrDie("involvedObject"),
}

func annotation(name string) fieldpath.Path {
	return fieldpath.MakePathOrDie("metadata", "annotations", "portolan.dev/"+name)
}

// elements caches the path elements of fields by their full name.
var elements sync.Map

// elementOf returns the path element of a field.
func elementOf(field protoreflect.FieldDescriptor) fieldpath.PathElement {
	if known, ok := elements.Load(field.FullName()); ok {
		element, _ := known.(fieldpath.PathElement)
		return element
	}
	element := fieldpath.FieldNameElement(kubernetesName(field))
	elements.Store(field.FullName(), element)
	return element
}

// kubernetesName returns the name of a field in Kubernetes, which writes some words at the end of a
// name in capitals.
func kubernetesName(field protoreflect.FieldDescriptor) string {
	name := field.JSONName()
	for _, word := range []string{"Ip", "Cidr", "Id"} {
		if stem, ok := strings.CutSuffix(name, word); ok {
			return stem + strings.ToUpper(word)
		}
		if stem, ok := strings.CutSuffix(name, word+"s"); ok {
			return stem + strings.ToUpper(word) + "s"
		}
	}
	return name
}
