package quota

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"portolan.dev/services/kinds"
)

// Resources of services besides their number, with the names that Kubernetes' ResourceQuota has.
const (
	nodePorts     = "services.nodeports"
	loadBalancers = "services.loadbalancers"
)

// everyNamespace stands for the namespaces that have no limit of their own for the resource.
const everyNamespace = "*"

// NamespaceQuota limits a resource in a namespace. Its text is NAMESPACE:RESOURCE=NUMBER. NAMESPACE
// may be *. RESOURCE is the plural name of a kind, or services.nodeports or services.loadbalancers.
type NamespaceQuota struct {
	Namespace, Resource string
	Limit               int
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (q *NamespaceQuota) UnmarshalText(text []byte) error {
	subject, number, hasNumber := strings.Cut(string(text), "=")
	namespace, resource, hasResource := strings.Cut(subject, ":")
	limit, err := strconv.Atoi(number)
	switch {
	case !hasNumber || !hasResource || namespace == "":
		return errors.New("want NAMESPACE:RESOURCE=NUMBER, such as shop:services=20")
	case !slices.Contains(resources(), resource):
		return fmt.Errorf("%q is none of the resources %s", resource, strings.Join(resources(), ", "))
	case err != nil || limit < 0:
		return fmt.Errorf("%q is not a number of %s", number, resource)
	}
	*q = NamespaceQuota{Namespace: namespace, Resource: resource, Limit: limit}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (q NamespaceQuota) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%s:%s=%d", q.Namespace, q.Resource, q.Limit), nil
}

// resources returns the names of the resources that can be limited.
func resources() []string {
	names := []string{nodePorts, loadBalancers}
	for _, kind := range kinds.All {
		if kind.Namespaced {
			names = append(names, kind.Plural)
		}
	}
	return names
}

// CheckQuotas returns an error if two quotas limit the same resource of a namespace.
func CheckQuotas(quotas []NamespaceQuota) error {
	seen := map[[2]string]bool{}
	for _, q := range quotas {
		key := [2]string{q.Namespace, q.Resource}
		if seen[key] {
			return fmt.Errorf("%s:%s is limited twice", q.Namespace, q.Resource)
		}
		seen[key] = true
	}
	return nil
}
