package columns

import (
	"fmt"
	"strings"

	kubev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"portolan.dev/services/kube"
)

var services = printer{
	columns: []metav1.TableColumnDefinition{
		name, text("Type", "How the service is exposed."), text("Cluster-IP", "The virtual IP of the service."),
		text("External-IP", "Addresses of the load balancer, and external IPs."), text("Port(s)", "The ports of the service."), age,
		wide("Selector", "The labels of the pods behind the service."),
	},
	cells: func(o kube.Object) []any {
		service, _ := o.(*kubev1.Service)
		clusterIP := "<none>"
		if len(service.Spec.ClusterIPs) > 0 {
			clusterIP = service.Spec.ClusterIPs[0]
		}
		return []any{
			service.Name, string(service.Spec.Type), clusterIP, externalIPs(service), ports(service.Spec.Ports), Age(service.CreationTimestamp),
			orNone(metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: service.Spec.Selector})),
		}
	},
}

func externalIPs(service *kubev1.Service) string {
	if service.Spec.Type == kubev1.ServiceTypeExternalName {
		return orNone(service.Spec.ExternalName)
	}
	var all []string
	if service.Spec.Type == kubev1.ServiceTypeLoadBalancer {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if ingress.IP != "" {
				all = append(all, ingress.IP)
			} else {
				all = append(all, ingress.Hostname)
			}
		}
	}
	all = append(all, service.Spec.ExternalIPs...)
	if len(all) == 0 && service.Spec.Type == kubev1.ServiceTypeLoadBalancer {
		return "<pending>"
	}
	return orNone(strings.Join(all, ","))
}

func ports(all []kubev1.ServicePort) string {
	texts := make([]string, len(all))
	for i, port := range all {
		texts[i] = fmt.Sprintf("%d/%s", port.Port, port.Protocol)
		if port.NodePort > 0 {
			texts[i] = fmt.Sprintf("%d:%d/%s", port.Port, port.NodePort, port.Protocol)
		}
	}
	return orNone(strings.Join(texts, ","))
}
