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

// ValidateProbe checks a probe after its default values were set. The fields of the violations are
// relative to the probe.
func ValidateProbe(probe *corev1.Probe) apierr.Violations {
	var c checks
	checkProbe(&c, "", probe)
	return c.found
}

// checkProbe checks a probe. Its fields begin with field, which is empty or ends without a dot.
func checkProbe(c *checks, field string, probe *corev1.Probe) {
	prefix := field
	if prefix != "" {
		prefix += "."
	}
	for _, number := range probeNumbers(probe) {
		if number.value < number.min {
			c.invalid(prefix+number.name, number.value, "must be at least %d", number.min)
		}
	}
	switch handler := probe.GetHandler().(type) {
	case *corev1.Probe_TcpSocket:
		checkPortOrName(c, prefix+"tcpSocket.port", handler.TcpSocket.GetPort())
	case *corev1.Probe_HttpGet:
		checkHTTPGet(c, prefix+"httpGet", handler.HttpGet)
	case *corev1.Probe_Grpc:
		checkPort(c, prefix+"grpc.port", handler.Grpc.GetPort())
	case *corev1.Probe_Exec:
		checkExec(c, prefix+"exec.command", handler.Exec.GetCommand())
	case *corev1.Probe_Ttl:
		checkTTL(c, prefix, probe)
	default:
		c.required(field, "a probe has one of tcpSocket, httpGet, grpc, exec and ttl")
	}
}

// probeNumber is a number of a probe with the smallest valid value and the default.
type probeNumber struct {
	name                string
	value, min, usually int32
}

func probeNumbers(probe *corev1.Probe) []probeNumber {
	return []probeNumber{
		{"initialDelaySeconds", probe.GetInitialDelaySeconds(), 0, 0},
		{"timeoutSeconds", probe.GetTimeoutSeconds(), 1, 1},
		{"periodSeconds", probe.GetPeriodSeconds(), 1, 10},
		{"successThreshold", probe.GetSuccessThreshold(), 1, 1},
		{"failureThreshold", probe.GetFailureThreshold(), 1, 3},
	}
}

// checkExec checks the command of an exec probe. Which scripts there are is known to the node agent
// only, so names that it refuses, such as /bin/sh in the manifests of Kubernetes, are valid here.
func checkExec(c *checks, field string, command []string) {
	if len(command) == 0 {
		c.required(field, "names a script in the folder of the node agent, and its arguments")
		return
	}
	if !c.atMost(field, len(command), maxCommand) {
		return
	}
	for i, word := range command {
		c.text(indexed(field, i), word, maxArgument)
		if strings.ContainsRune(word, 0) {
			c.invalid(indexed(field, i), word, "may not contain a zero byte")
		}
	}
	if command[0] == "" {
		c.required(indexed(field, 0), "the name of a script")
	}
}

// checkTTL checks a ttl probe. The node agent does not ask, so numbers about asking would be without
// effect.
func checkTTL(c *checks, prefix string, probe *corev1.Probe) {
	if ttl := probe.GetTtl().GetSeconds(); ttl < 1 || ttl > maxTTLSeconds {
		c.invalid(prefix+"ttl.seconds", ttl, "must be between 1 and %d", maxTTLSeconds)
	}
	for _, number := range probeNumbers(probe) {
		if number.value != number.usually && number.value >= number.min {
			c.invalid(prefix+number.name, number.value, "has no effect on a ttl check: leave it out")
		}
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
