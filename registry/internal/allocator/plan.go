package allocator

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Plan holds the claims of a version of a service, and the values that the version no longer needs.
type Plan struct {
	Claims []*allocatorv1.Claim
	// Released are values that the old version has and the new one has not: addresses, numbers of node
	// ports, and these numbers with their protocols, such as "30080/UDP".
	Released []string

	svc, old      *corev1.Service
	asked         asked
	holder        *holder // holder of the reserve; its Lease fences the commit; nil: none
	taken         *taken  // values from the reserve; nil: the values were asked for
	logEpoch      string  // epoch of the log that the values may be stored in; empty: any
	suffix        string
	releasedSlots []string         // slots of the vanished values
	skipped       []string         // slots of virtual IPs that were skipped
	fields        []string         // field of each claim, in the spelling of manifests
	assign        []func(v string) // stores the value of each claim
}

// NewPlan compares a service with its former version, which is nil on a create. Values that both
// have stay. A value that is requested explicitly or missing becomes a claim. The families of the
// service must be resolved already.
func NewPlan(svc, old *corev1.Service) *Plan {
	suffix := ""
	if old != nil {
		suffix = newSuffix()
	}
	return newPlan(svc, old, suffix)
}

// Again returns a new plan for the service after [Plan.Undo]. The plan has new slots, because the
// release of the former slots may still be under way.
func (p *Plan) Again() *Plan { return newPlan(p.svc, p.old, newSuffix()) }

func newSuffix() string { return "@" + rand.Text()[:6] }

func newPlan(svc, old *corev1.Service, suffix string) *Plan {
	p := &Plan{svc: svc, old: old, asked: askedOf(svc), suffix: suffix}
	had := values(old)
	p.planAddresses(had)
	p.planNodePorts(had)
	p.planHealthCheck(had)
	has := values(svc)
	for value := range had {
		if !has[value] {
			p.Released = append(p.Released, value)
		}
	}
	slices.Sort(p.Released)
	return p
}

// asked holds the values of a service as they were before anything was allocated.
type asked struct {
	clusterIP   string
	clusterIPs  []string
	nodePorts   []int32
	healthCheck int32
}

func askedOf(svc *corev1.Service) asked {
	s := svc.GetSpec()
	a := asked{clusterIP: s.GetClusterIp(), clusterIPs: slices.Clone(s.GetClusterIps()), healthCheck: s.GetHealthCheckNodePort()}
	for _, port := range s.GetPorts() {
		a.nodePorts = append(a.nodePorts, port.GetNodePort())
	}
	return a
}

// Undo makes the service as it was before the plan, so that another plan can be made for it.
func (p *Plan) Undo() {
	s := p.svc.GetSpec()
	if s == nil {
		return
	}
	s.ClusterIp, s.ClusterIps, s.HealthCheckNodePort = p.asked.clusterIP, p.asked.clusterIPs, p.asked.healthCheck
	for i, port := range s.Ports {
		port.NodePort = p.asked.nodePorts[i]
	}
}

// Conditions returns the fence and the epoch of the log that the commit must have. A nil plan has
// none.
func (p *Plan) Conditions() (fence *store.Fence, logEpoch string) {
	if p == nil {
		return nil, ""
	}
	if p.holder != nil {
		fence = &p.holder.fence
	}
	return fence, p.logEpoch
}

// needsAddressesOnly reports whether all claims are for virtual IPs.
func (p *Plan) needsAddressesOnly() bool {
	return !slices.ContainsFunc(p.Claims, func(c *allocatorv1.Claim) bool { return c.GetUse() != allocatorv1.Use_USE_CLUSTER_IP })
}

// values returns all allocated values of a service. A node port is among them by its number, and once
// more for each protocol that it serves, because the allocator may have a pool in which a number has
// an owner for each protocol.
func values(svc *corev1.Service) map[string]bool {
	all := map[string]bool{}
	if svc == nil {
		return all
	}
	if object.NeedsClusterIP(svc) {
		for _, ip := range svc.GetSpec().GetClusterIps() {
			all[ip] = true
		}
	}
	for _, port := range svc.GetSpec().GetPorts() {
		addPort(all, port.GetNodePort(), port.GetProtocol())
	}
	addPort(all, svc.GetSpec().GetHealthCheckNodePort(), corev1.Protocol_PROTOCOL_TCP)
	delete(all, "")
	return all
}

func addPort(all map[string]bool, number int32, protocol corev1.Protocol) {
	if number != 0 {
		all[portValue(number)], all[portValueFor(number, protocol)] = true, true
	}
}

// portValueFor returns a port of one protocol in the allocator's form.
func portValueFor(number int32, protocol corev1.Protocol) string {
	return portValue(number) + "/" + spec.EnumName(protocol)
}

// hasValues reports whether a service has allocated values.
func hasValues(svc *corev1.Service) bool { return len(values(svc)) > 0 }

func portValue(number int32) string {
	if number == 0 {
		return ""
	}
	return strconv.Itoa(int(number))
}

func (p *Plan) claim(slot, field string, claim *allocatorv1.Claim, assign func(string)) {
	claim.Slot = slot + p.suffix
	p.Claims = append(p.Claims, claim)
	p.fields = append(p.fields, field)
	p.assign = append(p.assign, assign)
}

func (p *Plan) planAddresses(had map[string]bool) {
	if !object.NeedsClusterIP(p.svc) {
		return
	}
	s := p.svc.Spec
	for i, family := range s.IpFamilies {
		if i == len(s.ClusterIps) {
			s.ClusterIps = append(s.ClusterIps, "")
		}
		if ip := s.ClusterIps[i]; ip != "" && had[ip] {
			continue
		}
		claim := &allocatorv1.Claim{Use: allocatorv1.Use_USE_CLUSTER_IP, Family: family, Value: s.ClusterIps[i]}
		p.claim("clusterIPs/"+spec.EnumName(family), fmt.Sprintf("spec.clusterIPs[%d]", i), claim, func(value string) {
			s.ClusterIps[i] = value
			s.ClusterIp = s.ClusterIps[0]
		})
	}
}

func (p *Plan) planNodePorts(had map[string]bool) {
	if !spec.AllowsNodePorts(p.svc) {
		return
	}
	needed := spec.NeedsNodePorts(p.svc)
	explicit := map[int32]*allocatorv1.Claim{} // by node port
	for i, port := range p.svc.Spec.Ports {
		if port.NodePort != 0 || needed && p.shareNodePort(port) {
			p.claimProtocol(explicit, port.NodePort, i, func(string) {}, had)
		}
	}
	if !needed {
		return
	}
	dynamic := map[int32]*allocatorv1.Claim{} // by port: ports with the same number get the same node port
	for i, port := range p.svc.Spec.Ports {
		if port.NodePort == 0 {
			p.claimProtocol(dynamic, port.Port, i, func(value string) { p.setNodePorts(port.Port, value) }, nil)
		}
	}
}

// claimProtocol adds the protocol of the i-th port to the claim for a number. If there is no such claim,
// it makes one. The service may have the node port for the protocol already.
func (p *Plan) claimProtocol(claims map[int32]*allocatorv1.Claim, number int32, i int, assign func(string), had map[string]bool) {
	port := p.svc.Spec.Ports[i]
	if had[portValueFor(port.NodePort, port.Protocol)] {
		return
	}
	if claims[number] == nil {
		claims[number] = p.claimNodePort(i, portValue(port.NodePort), assign)
	}
	claims[number].Protocols = append(claims[number].Protocols, port.Protocol)
}

func (p *Plan) claimNodePort(i int, value string, assign func(string)) *allocatorv1.Claim {
	port := p.svc.Spec.Ports[i]
	name := port.Name
	if name == "" {
		name = strconv.Itoa(i)
	}
	slot := fmt.Sprintf("nodePort/%s/%s", name, spec.EnumName(port.Protocol))
	claim := &allocatorv1.Claim{Use: allocatorv1.Use_USE_NODE_PORT, Value: value}
	p.claim(slot, fmt.Sprintf("spec.ports[%d].nodePort", i), claim, assign)
	return claim
}

// shareNodePort gives a port the node port of another port with the same number and another protocol. It
// returns false if there is no such port, or if its node port is used for the protocol already.
func (p *Plan) shareNodePort(port *corev1.ServicePort) bool {
	for _, other := range p.svc.Spec.Ports {
		if other.NodePort == 0 || other.Port != port.Port || other.Protocol == port.Protocol {
			continue
		}
		taken := slices.ContainsFunc(p.svc.Spec.Ports, func(third *corev1.ServicePort) bool {
			return third.NodePort == other.NodePort && third.Protocol == port.Protocol
		})
		if !taken {
			port.NodePort = other.NodePort
			return true
		}
	}
	return false
}

// setNodePorts sets the node port of all ports with this number that have none.
func (p *Plan) setNodePorts(number int32, value string) {
	nodePort := parsePort(value)
	for _, port := range p.svc.Spec.Ports {
		if port.Port == number && port.NodePort == 0 {
			port.NodePort = nodePort
		}
	}
}

func (p *Plan) planHealthCheck(had map[string]bool) {
	if !spec.NeedsHealthCheckNodePort(p.svc) {
		return
	}
	value := portValue(p.svc.Spec.HealthCheckNodePort)
	if value != "" && had[portValueFor(p.svc.Spec.HealthCheckNodePort, corev1.Protocol_PROTOCOL_TCP)] {
		return
	}
	claim := &allocatorv1.Claim{Use: allocatorv1.Use_USE_NODE_PORT, Value: value, Protocols: []corev1.Protocol{corev1.Protocol_PROTOCOL_TCP}}
	p.claim("healthCheckNodePort", "spec.healthCheckNodePort", claim, func(value string) {
		p.svc.Spec.HealthCheckNodePort = parsePort(value)
	})
}

// parsePort parses a port that the allocator returned. It returns 0 if the value is not a port. The check
// of the response then refuses the value.
func parsePort(value string) int32 {
	number, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return 0
	}
	return int32(number)
}

// skip assigns another slot to each claim that got a virtual IP which a backend uses, unless the service
// names the value. It reports whether there was such a claim.
func (p *Plan) skip(allocated []string, inUse func(address string) bool) bool {
	found := false
	for i, claim := range p.Claims {
		if claim.GetUse() == allocatorv1.Use_USE_CLUSTER_IP && claim.GetValue() == "" && i < len(allocated) && inUse(allocated[i]) {
			p.skipped = append(p.skipped, claim.GetSlot())
			claim.Slot = fmt.Sprintf("%s+%d", claim.GetSlot(), len(p.skipped))
			found = true
		}
	}
	return found
}

// Slots returns the slots of the claims.
func (p *Plan) Slots() []string {
	slots := make([]string, len(p.Claims))
	for i, claim := range p.Claims {
		slots[i] = claim.GetSlot()
	}
	return slots
}

// Assign writes the allocated values, one per claim, into the service.
func (p *Plan) Assign(allocated []string) error {
	if len(allocated) != len(p.Claims) {
		return fmt.Errorf("the allocator answered %d claims with %d values", len(p.Claims), len(allocated))
	}
	for i, value := range allocated {
		if value == "" || (p.Claims[i].GetUse() == allocatorv1.Use_USE_NODE_PORT && parsePort(value) == 0) {
			return fmt.Errorf("the allocator answered claim %q with %q", p.Claims[i].GetSlot(), value)
		}
		p.assign[i](value)
	}
	return nil
}
