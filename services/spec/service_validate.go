package spec

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

const (
	maxAffinitySeconds = 86400
	maxDrainSeconds    = 86400
)

// ValidateService checks a new service.
func ValidateService(svc *corev1.Service, rules Rules) apierr.Violations {
	var c checks
	validateServiceSpec(&c, svc, rules)
	return c.found
}

func validateServiceSpec(c *checks, svc *corev1.Service, rules Rules) {
	checkTopologyMode(c, svc.GetMetadata().GetAnnotations())
	checkServicePorts(c, svc)
	checkServiceType(c, svc)
	checkLabels(c, "spec.selector", svc.GetSpec().GetSelector())
	checkAffinity(c, svc.GetSpec())
	checkExternalIPs(c, svc.GetSpec().GetExternalIps(), rules)
	checkTrafficPolicies(c, svc)
	checkLoadBalancerFields(c, svc)
	checkRangesApplyTo(c, svc.GetMetadata().GetAnnotations())
	checkClusterIPs(c, svc)
	checkScheduling(c, svc.GetSpec())
	for _, p := range balancer.Violations(svc) {
		c.found.Add(p.Field(), apierr.ReasonInvalid, "%s", p.Message)
	}
}

func checkTopologyMode(c *checks, annotations map[string]string) {
	mode, hasMode := annotations[object.AnnotationTopologyMode]
	older, hasOlder := annotations[object.AnnotationTopologyModeOlder]
	if hasMode && hasOlder && mode != older {
		c.invalid("metadata.annotations["+object.AnnotationTopologyMode+"]", mode, "must equal annotation %s, which is its older name", object.AnnotationTopologyModeOlder)
	}
}

func checkServicePorts(c *checks, svc *corev1.Service) {
	ports := svc.GetSpec().GetPorts()
	if len(ports) == 0 && !object.IsHeadless(svc) && !object.IsExternalName(svc) {
		c.required("spec.ports", "a service that is neither headless nor an ExternalName has at least one port")
	}
	if !c.atMost("spec.ports", len(ports), MaxPortsPerSlice) {
		return
	}
	names, numbers, nodePorts := map[string]bool{}, map[nodePort]bool{}, map[nodePort]bool{}
	for i, port := range ports {
		field := indexed("spec.ports", i)
		checkServicePort(c, field, port, len(ports) > 1)
		if name := port.GetName(); name != "" {
			if names[name] {
				c.duplicate(field+".name", name)
			}
			names[name] = true
		}
		key := nodePort{port.GetProtocol(), port.GetPort()}
		if numbers[key] {
			c.duplicate(field, fmt.Sprintf("%s %d", EnumName(key.protocol), key.number))
		}
		numbers[key] = true
		checkNodePort(c, field+".nodePort", svc, port, nodePorts)
	}
}

func checkServicePort(c *checks, field string, port *corev1.ServicePort, several bool) {
	switch name := port.GetName(); {
	case name == "" && several:
		c.required(field+".name", "with more than one port every port has a name")
	case name != "":
		c.syntax(field+".name", name, DNSLabel(name))
	}
	checkPort(c, field+".port", port.GetPort())
	checkEnum(c, field+".protocol", port.GetProtocol())
	if target := port.GetTargetPort(); target.GetName() != "" {
		c.syntax(field+".targetPort", target.GetName(), PortName(target.GetName()))
	} else {
		checkPort(c, field+".targetPort", target.GetNumber())
	}
	checkAppProtocol(c, field, port.AppProtocol)
}

func checkAppProtocol(c *checks, field string, appProtocol *string) {
	if appProtocol != nil {
		c.syntax(field+".appProtocol", *appProtocol, QualifiedName(*appProtocol))
	}
}

// checkNodePort checks the node port of a port. The allocator checks the range, which is part of
// its configuration.
func checkNodePort(c *checks, field string, svc *corev1.Service, port *corev1.ServicePort, seen map[nodePort]bool) {
	number := port.GetNodePort()
	if number == 0 {
		return
	}
	if !AllowsNodePorts(svc) {
		c.forbidden(field, "may not be used when spec.type is %q", EnumName(svc.GetSpec().GetType()))
		return
	}
	checkPort(c, field, number)
	key := nodePort{port.GetProtocol(), number}
	if seen[key] {
		c.duplicate(field, number)
	}
	seen[key] = true
}

func checkServiceType(c *checks, svc *corev1.Service) {
	spec := svc.GetSpec()
	if !checkEnum(c, "spec.type", spec.GetType()) {
		return
	}
	if AllowsNodePorts(svc) && spec.GetClusterIp() == object.ClusterIPNone {
		c.invalid("spec.clusterIPs[0]", object.ClusterIPNone, "may not be set to 'None' for %s services", EnumName(spec.GetType()))
	}
	if !object.IsExternalName(svc) {
		return
	}
	if name := strings.TrimSuffix(spec.GetExternalName(), "."); name == "" {
		c.required("spec.externalName", "says what the service is an alias of")
	} else {
		c.syntax("spec.externalName", spec.GetExternalName(), DNSSubdomain(name))
	}
	for _, given := range []struct {
		field string
		set   bool
	}{
		{"spec.clusterIP", spec.GetClusterIp() != ""},
		{"spec.clusterIPs", len(spec.GetClusterIps()) > 0},
		{"spec.ipFamilies", len(spec.GetIpFamilies()) > 0},
		{"spec.ipFamilyPolicy", spec.GetIpFamilyPolicy() != 0},
	} {
		if given.set {
			c.forbidden(given.field, "may not be set for ExternalName services")
		}
	}
}

func checkAffinity(c *checks, spec *corev1.ServiceSpec) {
	if !checkEnum(c, "spec.sessionAffinity", spec.GetSessionAffinity()) {
		return
	}
	const config = "spec.sessionAffinityConfig"
	client := spec.GetSessionAffinityConfig().GetClientIp()
	switch spec.GetSessionAffinity() {
	case corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP:
		if client == nil || client.TimeoutSeconds == nil {
			c.required(config+".clientIP.timeoutSeconds", "must be set when spec.sessionAffinity is \"ClientIP\"")
		} else if seconds := *client.TimeoutSeconds; seconds < 1 || seconds > maxAffinitySeconds {
			c.invalid(config+".clientIP.timeoutSeconds", seconds, "must be between 1 and %d", maxAffinitySeconds)
		}
	default:
		if spec.GetSessionAffinityConfig() != nil {
			c.forbidden(config, "may only be set when spec.sessionAffinity is \"ClientIP\"")
		}
	}
}

func checkExternalIPs(c *checks, externalIPs []string, rules Rules) {
	for i, ip := range externalIPs {
		field := indexed("spec.externalIPs", i)
		addr, ok := checkAddress(c, field, ip)
		if !ok || !checkNotSpecial(c, field, addr) {
			continue
		}
		checkExternalAddress(c, field, addr, rules)
		if slices.Contains(externalIPs[:i], ip) {
			c.duplicate(field, ip)
		}
	}
}

func checkTrafficPolicies(c *checks, svc *corev1.Service) {
	spec := svc.GetSpec()
	if ExternallyAccessible(svc) {
		checkPolicy(c, "spec.externalTrafficPolicy", spec.GetExternalTrafficPolicy())
	} else if spec.GetExternalTrafficPolicy() != 0 {
		c.forbidden("spec.externalTrafficPolicy", "may only be set for services that are reachable from outside: NodePort, LoadBalancer, or with externalIPs")
	}
	if !object.IsExternalName(svc) || spec.GetInternalTrafficPolicy() != 0 {
		checkPolicy(c, "spec.internalTrafficPolicy", spec.GetInternalTrafficPolicy())
	}
	if spec.GetTrafficDistribution() != 0 {
		checkEnum(c, "spec.trafficDistribution", spec.GetTrafficDistribution())
	}
	switch port := spec.GetHealthCheckNodePort(); {
	case port == 0:
	case !NeedsHealthCheckNodePort(svc):
		c.forbidden("spec.healthCheckNodePort", "may only be set when spec.type is \"LoadBalancer\" and spec.externalTrafficPolicy is \"Local\"")
	default:
		checkPort(c, "spec.healthCheckNodePort", port)
		checkHealthCheckPortDistinct(c, spec)
	}
}

// checkHealthCheckPortDistinct refuses a health-check node port that is also a node port of the
// same service. The allocator would accept it, because both are the same value with the same owner.
func checkHealthCheckPortDistinct(c *checks, spec *corev1.ServiceSpec) {
	for i, port := range spec.GetPorts() {
		if port.GetNodePort() == spec.GetHealthCheckNodePort() {
			c.invalid("spec.healthCheckNodePort", spec.GetHealthCheckNodePort(), "is %s already; take another one, or leave it out to get one", indexed("spec.ports", i)+".nodePort")
			return
		}
	}
}

func checkPolicy(c *checks, field string, policy corev1.TrafficPolicy) {
	if policy == 0 {
		c.required(field, "must be one of "+strings.Join(EnumNames[corev1.TrafficPolicy](), ", "))
		return
	}
	checkEnum(c, field, policy)
}

func checkLoadBalancerFields(c *checks, svc *corev1.Service) {
	spec := svc.GetSpec()
	ranges, field := sourceRanges(svc)
	if len(ranges) > 0 && !IsLoadBalancer(svc) {
		c.forbidden(field, "may only be used when spec.type is \"LoadBalancer\"")
	} else {
		for i, text := range ranges {
			if _, err := netip.ParsePrefix(text); err != nil {
				c.invalid(indexed(field, i), text, "must be a range of addresses (such as 10.9.8.0/24 or 2001:db8::/64)")
			}
		}
	}
	switch allocate := spec.AllocateLoadBalancerNodePorts; {
	case allocate == nil && IsLoadBalancer(svc):
		c.required("spec.allocateLoadBalancerNodePorts", "must be set when spec.type is \"LoadBalancer\"")
	case allocate != nil && !IsLoadBalancer(svc):
		c.forbidden("spec.allocateLoadBalancerNodePorts", "may only be used when spec.type is \"LoadBalancer\"")
	}
	if class := spec.LoadBalancerClass; class != nil {
		if IsLoadBalancer(svc) {
			c.syntax("spec.loadBalancerClass", *class, QualifiedName(*class))
		} else {
			c.forbidden("spec.loadBalancerClass", "may only be used when spec.type is \"LoadBalancer\"")
		}
	}
}

// rangesApplyTo lists the kinds of addresses that source ranges can protect.
var rangesApplyTo = []string{"loadBalancer", "nodePort", "externalIP"}

func checkRangesApplyTo(c *checks, annotations map[string]string) {
	list, has := annotations[object.AnnotationRangesApplyTo]
	if !has {
		return
	}
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); !slices.Contains(rangesApplyTo, text) {
			c.unsupported("metadata.annotations["+object.AnnotationRangesApplyTo+"]", text, rangesApplyTo)
		}
	}
}

// schedulerFlags lists the flags of each IPVS scheduler.
var schedulerFlags = map[corev1.Scheduler][]string{
	corev1.Scheduler_SCHEDULER_SH: {"sh-fallback", "sh-port"},
	corev1.Scheduler_SCHEDULER_MH: {"mh-fallback", "mh-port"},
}

func checkScheduling(c *checks, spec *corev1.ServiceSpec) {
	if spec.GetScheduler() != 0 {
		checkEnum(c, "spec.scheduler", spec.GetScheduler())
	}
	for i, flag := range spec.GetSchedulerFlags() {
		field := indexed("spec.schedulerFlags", i)
		if known := schedulerFlags[spec.GetScheduler()]; len(known) == 0 {
			c.forbidden(field, "only the schedulers sh and mh have flags")
		} else if !slices.Contains(known, flag) {
			c.unsupported(field, flag, known)
		} else if slices.Contains(spec.GetSchedulerFlags()[:i], flag) {
			c.duplicate(field, flag)
		}
	}
	if seconds := spec.GetDrainTimeoutSeconds(); seconds < 0 || seconds > maxDrainSeconds {
		c.invalid("spec.drainTimeoutSeconds", seconds, "must be between 0 and %d", maxDrainSeconds)
	}
}
