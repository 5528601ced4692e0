package columns

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	kubev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"portolan.dev/services/kube"
)

// shown is the number of addresses or ports that a cell lists.
const shown = 3

var endpoints = printer{
	columns: []metav1.TableColumnDefinition{name, text("Endpoints", "Addresses and ports of the endpoints."), age},
	cells: func(o kube.Object) []any {
		e, _ := o.(*kubev1.Endpoints) //nolint:staticcheck // older clients use the kind
		var all []string
		for _, subset := range e.Subsets {
			for _, address := range subset.Addresses {
				if len(subset.Ports) == 0 {
					all = append(all, address.IP)
				}
				for _, port := range subset.Ports {
					all = append(all, net.JoinHostPort(address.IP, strconv.Itoa(int(port.Port))))
				}
			}
		}
		return []any{e.Name, some(all, "<none>"), Age(e.CreationTimestamp)}
	},
}

var endpointSlices = printer{
	columns: []metav1.TableColumnDefinition{
		name, text("AddressType", "The type of the addresses."), text("Ports", "The ports of each endpoint."),
		text("Endpoints", "Addresses of the endpoints."), age,
	},
	cells: func(o kube.Object) []any {
		slice, _ := o.(*discoveryv1.EndpointSlice)
		var ports, addresses []string
		for _, port := range slice.Ports {
			switch {
			case port.Port != nil:
				ports = append(ports, strconv.Itoa(int(*port.Port)))
			case port.Name != nil:
				ports = append(ports, *port.Name)
			default:
				ports = append(ports, "*")
			}
		}
		for _, endpoint := range slice.Endpoints {
			addresses = append(addresses, endpoint.Addresses...)
		}
		return []any{slice.Name, string(slice.AddressType), some(ports, "<unset>"), some(addresses, "<unset>"), Age(slice.CreationTimestamp)}
	},
}

// some joins the first texts and counts the others.
func some(all []string, none string) string {
	switch {
	case len(all) == 0:
		return none
	case len(all) > shown:
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:shown], ","), len(all)-shown)
	}
	return strings.Join(all, ",")
}
