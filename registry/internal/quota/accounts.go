package quota

import (
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// Flags of the registry that set the limits.
const (
	flagNamespaceQuotas = "namespace-quotas"
	flagWorkloadPods    = "max-pods-per-workload"
	flagRegistrarPods   = "max-pods-per-registrar"
	flagMadeServices    = "max-services-per-registrar"
)

// namespaceOwner is the beginning of the owner of a namespace's account. The owner of the
// account of a workload or a registrar is the path of its identity, which has no space.
const namespaceOwner = "namespace "

// OwnerLimits limit the objects that one workload or registrar has created. An annotation of each object
// names its creator.
type OwnerLimits struct {
	// Pods is the limit of a workload. RegistrarPods is the limit of a registrar, which registers all
	// containers of a node.
	Pods, RegistrarPods int
	// Services is the limit of services, and also of namespaces.
	Services int
}

// accountLimits are the limits of all accounts.
type accountLimits struct {
	namespaces map[string]map[string]int // by resource and namespace, which may be everyNamespace
	owned      map[string]int            // of one owner, by kind
	// registrarPods is the limit of pods of a registrar; owned has the limit of other owners.
	registrarPods int
}

func newAccountLimits(quotas []NamespaceQuota, owned OwnerLimits) accountLimits {
	l := accountLimits{
		namespaces:    map[string]map[string]int{},
		owned:         map[string]int{"Pod": owned.Pods, "Service": owned.Services, "Namespace": owned.Services},
		registrarPods: owned.RegistrarPods,
	}
	for _, q := range quotas {
		if l.namespaces[q.Resource] == nil {
			l.namespaces[q.Resource] = map[string]int{}
		}
		l.namespaces[q.Resource][q.Namespace] = q.Limit
	}
	return l
}

// plurals are the resources of the kinds with namespaces, by kind.
var plurals = func() map[string]string {
	names := map[string]string{}
	for _, kind := range kinds.All {
		if kind.Namespaced {
			names[kind.Name] = kind.Plural
		}
	}
	return names
}()

// countedKinds returns the kinds that can have a limit.
func (l *accountLimits) countedKinds() []string {
	var names []string
	for _, kind := range kinds.All {
		if _, owned := l.owned[kind.Name]; owned || kind.Namespaced {
			names = append(names, kind.Name)
		}
	}
	return names
}

// of returns the limit of a resource in a namespace.
func (l *accountLimits) of(namespace, resource string) (limit int, limited bool) {
	byNamespace := l.namespaces[resource]
	if limit, limited = byNamespace[namespace]; !limited {
		limit, limited = byNamespace[everyNamespace]
	}
	return limit, limited
}

// named returns the accounts of the limits that name a namespace.
func (l *accountLimits) named() []store.Account {
	var accounts []store.Account
	for resource, byNamespace := range l.namespaces {
		for namespace := range byNamespace {
			if namespace != everyNamespace {
				accounts = append(accounts, store.Account{Owner: namespaceOwner + namespace, Resource: resource})
			}
		}
	}
	return accounts
}

// concern reports whether an object with the key may be charged to an account.
func (l *accountLimits) concern(key object.Key) bool {
	if _, owned := l.owned[key.Kind]; owned { // by a workload or a registrar, possibly
		return true
	}
	_, limited := l.of(key.Namespace, plurals[key.Kind])
	return limited
}

// charge calls add for each limited account that an object is charged to.
func (l *accountLimits) charge(o object.Object, add func(account store.Account, amount, limit int)) {
	kind, meta := object.KindOf(o), o.GetMetadata()
	if len(l.namespaces) > 0 && plurals[kind] != "" {
		l.chargeNamespace(meta.GetNamespace(), plurals[kind], 1, add)
		if svc, ok := o.(*corev1.Service); ok {
			l.chargeNamespace(meta.GetNamespace(), nodePorts, nodePortsOf(svc), add)
			if svc.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER {
				l.chargeNamespace(meta.GetNamespace(), loadBalancers, 1, add)
			}
		}
	}
	if limit, owned := l.owned[kind]; owned {
		if owner := meta.GetAnnotations()[object.AnnotationWorkload]; owner != "" {
			if kind == "Pod" && isRegistrar(owner) {
				limit = l.registrarPods
			}
			add(store.Account{Owner: owner, Resource: kinds.Of(o).Plural}, 1, limit)
		}
	}
}

func (l *accountLimits) chargeNamespace(namespace, resource string, amount int, add func(account store.Account, amount, limit int)) {
	if limit, limited := l.of(namespace, resource); limited && amount > 0 {
		add(store.Account{Owner: namespaceOwner + namespace, Resource: resource}, amount, limit)
	}
}

// nodePortsOf returns the number of node ports that a service has or is to get. It does not depend
// on the allocation.
func nodePortsOf(svc *corev1.Service) int {
	spec, n := svc.GetSpec(), 0
	allocated := spec.GetType() == corev1.ServiceType_SERVICE_TYPE_NODE_PORT ||
		spec.GetType() == corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER && (spec.AllocateLoadBalancerNodePorts == nil || spec.GetAllocateLoadBalancerNodePorts())
	for _, port := range spec.GetPorts() {
		if allocated || port.GetNodePort() != 0 {
			n++
		}
	}
	return n
}

// flag returns the flag that sets the limit of an account.
func (l *accountLimits) flag(account store.Account) string {
	if strings.HasPrefix(account.Owner, namespaceOwner) {
		return flagNamespaceQuotas
	}
	switch {
	case account.Resource != "pods":
		return flagMadeServices
	case isRegistrar(account.Owner):
		return flagRegistrarPods
	}
	return flagWorkloadPods
}

// isRegistrar reports whether a path identifies a registrar.
func isRegistrar(owner string) bool { return strings.HasPrefix(owner, string(identity.Registrar)+"/") }
