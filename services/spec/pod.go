package spec

import (
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
)

// ValidatePod checks a new pod.
func ValidatePod(pod *corev1.Pod, rules Rules) apierr.Violations {
	var c checks
	checkPodSpec(&c, pod.GetSpec())
	c.add(ValidatePodStatus(pod, rules))
	return c.found
}

// ValidatePodUpdate checks a pod that is to replace old. A pod cannot move to another node.
func ValidatePodUpdate(updated, old *corev1.Pod, rules Rules) apierr.Violations {
	c := checks{found: ValidatePod(updated, rules)}
	if node := old.GetSpec().GetNodeName(); node != "" && updated.GetSpec().GetNodeName() != node {
		c.immutable("spec.nodeName", updated.GetSpec().GetNodeName())
	}
	return c.found
}

// ValidatePodStatus checks the status of a pod.
func ValidatePodStatus(pod *corev1.Pod, rules Rules) apierr.Violations {
	var c checks
	status := pod.GetStatus()
	if status.GetPhase() != 0 {
		checkEnum(&c, "status.phase", status.GetPhase())
	}
	checkConditions(&c, status.GetConditions())
	c.text("status.reason", status.GetReason(), maxReason)
	c.text("status.message", status.GetMessage(), maxMessage)
	ips := status.GetPodIps()
	if !c.atMost("status.podIPs", len(ips), 2) {
		return c.found
	}
	if len(ips) > 0 && status.GetPodIp() != ips[0] {
		c.invalid("status.podIP", status.GetPodIp(), "must equal the first of status.podIPs, %q", truncate(ips[0]))
	}
	for i, ip := range ips {
		checkEndpointAddress(&c, indexed("status.podIPs", i), ip, rules)
	}
	if len(ips) == 2 && FamilyOf(ips[0]) == FamilyOf(ips[1]) {
		c.invalid("status.podIPs", strings.Join(ips, ","), "there can be one address of each family")
	}
	if ip := status.GetHostIp(); ip != "" {
		checkAddress(&c, "status.hostIP", ip)
	}
	return c.found
}

func checkPodSpec(c *checks, spec *corev1.PodSpec) {
	for _, label := range []struct{ field, value string }{
		{"spec.hostname", spec.GetHostname()}, {"spec.subdomain", spec.GetSubdomain()},
	} {
		if label.value != "" {
			c.syntax(label.field, label.value, DNSLabel(label.value))
		}
	}
	if node := spec.GetNodeName(); node != "" {
		c.syntax("spec.nodeName", node, DNSSubdomain(node))
	}
	if spec.GetTerminationGracePeriodSeconds() < 0 {
		c.invalid("spec.terminationGracePeriodSeconds", spec.GetTerminationGracePeriodSeconds(), "may not be negative")
	}
	if spec.GetWeight() > maxWeight {
		c.invalid("spec.weight", spec.GetWeight(), "must be between 0 and %d", maxWeight)
	}
	checkRestartPolicy(c, "spec.restartPolicy", spec.GetRestartPolicy(), "Always", "OnFailure", "Never")
	for _, list := range []struct {
		field       string
		have, limit int
	}{
		{"spec.readinessGates", len(spec.GetReadinessGates()), maxGates},
		{"spec.containers", len(spec.GetContainers()), maxContainers}, {"spec.initContainers", len(spec.GetInitContainers()), maxContainers},
	} {
		if !c.atMost(list.field, list.have, list.limit) {
			return
		}
	}
	for i, gate := range spec.GetReadinessGates() {
		c.syntax(indexed("spec.readinessGates", i)+".conditionType", gate.GetConditionType(), QualifiedName(gate.GetConditionType()))
	}
	names := map[string]bool{}
	for i, container := range spec.GetContainers() {
		checkContainer(c, indexed("spec.containers", i), container, names)
	}
	for i, container := range spec.GetInitContainers() {
		field := indexed("spec.initContainers", i)
		checkContainer(c, field, container, names)
		checkRestartPolicy(c, field+".restartPolicy", container.GetRestartPolicy(), "Always", "OnFailure", "Never")
	}
}

func checkRestartPolicy(c *checks, field, policy string, known ...string) {
	if policy != "" && !slices.Contains(known, policy) {
		c.unsupported(field, policy, known)
	}
}

func checkContainer(c *checks, field string, container *corev1.Container, names map[string]bool) {
	switch name := container.GetName(); {
	case name == "":
		c.required(field+".name", "a container has a name")
	case names[name]:
		c.duplicate(field+".name", name)
	default:
		c.syntax(field+".name", name, DNSLabel(name))
		names[name] = true
	}
	if !c.atMost(field+".ports", len(container.GetPorts()), maxPodPorts) || !c.atMost(field+".env", len(container.GetEnv()), maxContainerEnv) {
		return
	}
	ports := map[string]bool{}
	for i, port := range container.GetPorts() {
		checkContainerPort(c, indexed(field+".ports", i), port, ports)
	}
	for i, env := range container.GetEnv() {
		if env.GetName() == "" {
			c.required(indexed(field+".env", i)+".name", "a variable has a name")
		} else if strings.ContainsAny(env.GetName(), "=\x00") {
			c.invalid(indexed(field+".env", i)+".name", env.GetName(), "may not contain '='")
		}
		c.text(indexed(field+".env", i)+".name", env.GetName(), maxEnvName)
	}
	if probe := container.GetReadinessProbe(); probe != nil {
		checkProbe(c, field+".readinessProbe", probe)
	}
}

func checkContainerPort(c *checks, field string, port *corev1.ContainerPort, names map[string]bool) {
	if name := port.GetName(); name != "" {
		c.syntax(field+".name", name, PortName(name))
		if names[name] {
			c.duplicate(field+".name", name)
		}
		names[name] = true
	}
	checkPort(c, field+".containerPort", port.GetContainerPort())
	checkEnum(c, field+".protocol", port.GetProtocol())
	if port.GetHostPort() != 0 {
		checkPort(c, field+".hostPort", port.GetHostPort())
	}
	if port.GetHostIp() != "" {
		checkAddress(c, field+".hostIP", port.GetHostIp())
	}
}

func checkProbe(c *checks, field string, probe *corev1.Probe) {
	for _, number := range []struct {
		name       string
		value, min int32
	}{
		{"initialDelaySeconds", probe.GetInitialDelaySeconds(), 0},
		{"timeoutSeconds", probe.GetTimeoutSeconds(), 1},
		{"periodSeconds", probe.GetPeriodSeconds(), 1},
		{"successThreshold", probe.GetSuccessThreshold(), 1},
		{"failureThreshold", probe.GetFailureThreshold(), 1},
	} {
		if number.value < number.min {
			c.invalid(field+"."+number.name, number.value, "must be at least %d", number.min)
		}
	}
	switch handler := probe.GetHandler().(type) {
	case *corev1.Probe_TcpSocket:
		checkPortOrName(c, field+".tcpSocket.port", handler.TcpSocket.GetPort())
	case *corev1.Probe_HttpGet:
		checkHTTPGet(c, field+".httpGet", handler.HttpGet)
	case *corev1.Probe_Grpc:
		checkPort(c, field+".grpc.port", handler.Grpc.GetPort())
	default:
		c.required(field, "a probe has one of tcpSocket, httpGet and grpc")
	}
}

func checkHTTPGet(c *checks, field string, get *corev1.HTTPGetAction) {
	checkPortOrName(c, field+".port", get.GetPort())
	if get.GetPath() == "" {
		c.required(field+".path", "says what to get")
	}
	if schemes := []string{"HTTP", "HTTPS"}; !slices.Contains(schemes, get.GetScheme()) {
		c.unsupported(field+".scheme", get.GetScheme(), schemes)
	}
	c.text(field+".path", get.GetPath(), maxPath)
	if !c.atMost(field+".httpHeaders", len(get.GetHttpHeaders()), maxHTTPHeaders) {
		return
	}
	for i, header := range get.GetHttpHeaders() {
		if !isToken(header.GetName()) {
			c.invalid(indexed(field+".httpHeaders", i)+".name", header.GetName(), "must be the name of an HTTP header")
		}
		if strings.ContainsAny(header.GetValue(), "\r\n\x00") {
			c.invalid(indexed(field+".httpHeaders", i)+".value", header.GetValue(), "may not contain line breaks")
		}
	}
}

func checkPortOrName(c *checks, field string, port *corev1.IntOrString) {
	if port.GetName() != "" {
		c.syntax(field, port.GetName(), PortName(port.GetName()))
		return
	}
	checkPort(c, field, port.GetNumber())
}

// isToken reports whether s is a token of RFC 9110, the syntax of header names.
func isToken(s string) bool {
	for i := range len(s) {
		if b := s[i]; !lower(b) && !upper(b) && !digit(b) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(b)) {
			return false
		}
	}
	return s != ""
}

func checkConditions(c *checks, conditions []*corev1.Condition) {
	if !c.atMost("status.conditions", len(conditions), maxConditions) {
		return
	}
	seen := map[string]bool{}
	for i, condition := range conditions {
		field := indexed("status.conditions", i)
		switch name := condition.GetType(); {
		case name == "":
			c.required(field+".type", "names the aspect")
		case seen[name]:
			c.duplicate(field+".type", name)
		default:
			c.syntax(field+".type", name, QualifiedName(name))
			seen[name] = true
		}
		checkEnum(c, field+".status", condition.GetStatus())
		c.text(field+".reason", condition.GetReason(), maxReason)
		c.text(field+".message", condition.GetMessage(), maxMessage)
	}
}
