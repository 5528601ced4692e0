package envvars

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// apiService is the service of the default namespace that is visible in every namespace.
const apiService = "kubernetes"

// Options selects the services in a workload's environment.
type Options struct {
	// Namespace is the namespace of the workload. The default is "default".
	Namespace string
	// NoServiceLinks leaves out the services of the namespace. It is for large namespaces, because their
	// services do not fit into an environment.
	NoServiceLinks bool
	// Selector selects among the services of the namespace.
	Selector spec.Selector
}

// Environment is the rendered environment of a workload.
type Environment struct {
	// Variables maps names to values.
	Variables map[string]string
	// Lines are the variables as NAME=value, sorted.
	Lines []string
	// Warnings has a line for each variable that two services claim with different values.
	Warnings []string
}

// Render renders the environment from services of any namespaces, and ignores the services that the
// workload does not see. Variables that the workload sets itself take precedence; the caller must
// add them.
func Render(services []*corev1.Service, options Options) Environment {
	claims := map[string][]claim{}
	for _, svc := range visible(services, options) {
		for _, c := range serviceClaims(svc) {
			claims[c.name] = append(claims[c.name], c)
		}
	}
	env := Environment{Variables: make(map[string]string, len(claims))}
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		winner, warnings := pickWinner(claims[name])
		env.Variables[name] = winner.value
		env.Lines = append(env.Lines, name+"="+winner.value)
		env.Warnings = append(env.Warnings, warnings...)
	}
	slices.Sort(env.Lines)
	return env
}

// visible returns the services that the workload sees, by name. A service of the workload's
// namespace takes precedence over one of the default namespace.
func visible(services []*corev1.Service, options Options) map[string]*corev1.Service {
	namespace := cmp.Or(options.Namespace, object.DefaultNamespace)
	seen := map[string]*corev1.Service{}
	for _, svc := range services {
		meta := svc.GetMetadata()
		if !hasAddress(svc) {
			continue
		}
		switch {
		case meta.GetNamespace() == namespace && !options.NoServiceLinks && options.Selector.Matches(meta.GetLabels()):
			seen[meta.GetName()] = svc
		case meta.GetNamespace() == object.DefaultNamespace && meta.GetName() == apiService && seen[apiService] == nil:
			seen[apiService] = svc
		}
	}
	return seen
}

func hasAddress(svc *corev1.Service) bool {
	return object.NeedsClusterIP(svc) && svc.GetSpec().GetClusterIp() != "" && len(svc.GetSpec().GetPorts()) > 0
}

// claim is a variable that a service would set.
type claim struct {
	name, value string
	service     string
	link        bool // a variable of container links, which loses to other claims
}

// pickWinner returns the claim that wins among the claims to one name, and a warning for each other
// claim with a different value.
func pickWinner(claims []claim) (winner claim, warnings []string) {
	slices.SortFunc(claims, func(a, b claim) int {
		if a.link != b.link {
			if a.link {
				return 1
			}
			return -1
		}
		return strings.Compare(a.service, b.service)
	})
	winner = claims[0]
	for _, loser := range claims[1:] {
		if loser.value != winner.value {
			warnings = append(warnings, fmt.Sprintf("%s is of service %q; service %q, which would set it to %q, goes without",
				winner.name, winner.service, loser.service, loser.value))
		}
	}
	return winner, warnings
}

func serviceClaims(svc *corev1.Service) []claim {
	var claims []claim
	name, host, ports := svc.GetMetadata().GetName(), svc.GetSpec().GetClusterIp(), svc.GetSpec().GetPorts()
	add := func(link bool, variable, value string) {
		claims = append(claims, claim{name: variableName(name) + variable, value: value, service: name, link: link})
	}
	add(false, "_SERVICE_HOST", host)
	add(false, "_SERVICE_PORT", number(ports[0]))
	for _, port := range ports {
		if port.GetName() != "" {
			add(false, "_SERVICE_PORT_"+variableName(port.GetName()), number(port))
		}
	}
	for i, port := range ports {
		protocol := protocolName(port)
		url := strings.ToLower(protocol) + "://" + net.JoinHostPort(host, number(port))
		if i == 0 {
			add(true, "_PORT", url)
		}
		prefix := "_PORT_" + number(port) + "_" + protocol
		add(true, prefix, url)
		add(true, prefix+"_PROTO", strings.ToLower(protocol))
		add(true, prefix+"_PORT", number(port))
		add(true, prefix+"_ADDR", host)
	}
	return claims
}

func variableName(name string) string {
	return strings.ReplaceAll(strings.ToUpper(name), "-", "_")
}

func number(port *corev1.ServicePort) string { return strconv.Itoa(int(port.GetPort())) }

func protocolName(port *corev1.ServicePort) string {
	return cmp.Or(spec.EnumName(port.GetProtocol()), "TCP")
}
