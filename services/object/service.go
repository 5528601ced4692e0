package object

import corev1 "portolan.dev/api/core/v1"

// ClusterIPNone is the cluster IP of a headless service.
const ClusterIPNone = "None"

// IsHeadless reports whether the service is headless: its cluster IP is "None" and it is not an
// ExternalName.
func IsHeadless(svc *corev1.Service) bool {
	ips := ClusterIPs(svc)
	return len(ips) > 0 && ips[0] == ClusterIPNone && !IsExternalName(svc)
}

// IsExternalName reports whether the service is only an alias in DNS.
func IsExternalName(svc *corev1.Service) bool {
	return svc.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME
}

// NeedsClusterIP reports whether the service has virtual IPs or is to get them.
func NeedsClusterIP(svc *corev1.Service) bool { return !IsExternalName(svc) && !IsHeadless(svc) }

// ServiceOf returns the name of the service that an EndpointSlice belongs to. Its last part is empty
// if the slice lacks LabelServiceName.
func ServiceOf(slice *corev1.EndpointSlice) Name {
	meta := slice.GetMetadata()
	return Name{Namespace: meta.GetNamespace(), Name: meta.GetLabels()[LabelServiceName]}
}

// ServiceKey returns the key of the service that an EndpointSlice belongs to.
func ServiceKey(slice *corev1.EndpointSlice) Key {
	of := ServiceOf(slice)
	return Key{Kind: "Service", Namespace: of.Namespace, Name: of.Name}
}
