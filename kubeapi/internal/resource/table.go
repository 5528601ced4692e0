package resource

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/kubeapi/internal/convert"
)

// All lists all resources, those of a version of the API together.
var All = all()

func all() []*Resource {
	served := make([]*Resource, 0, len(convert.All())+len(empty))
	for _, codec := range convert.All() {
		kind := codec.Kind
		r := &Resource{Kind: codec.GroupVersionKind, Plural: kind.Plural, Short: kind.Short, Namespaced: kind.Namespaced, Codec: codec}
		if kind.Name == "Pod" || kind.Name == "Service" {
			r.Categories = []string{"all"} // of kubectl get all
		}
		served = append(served, r)
	}
	for i := range empty {
		served = append(served, &empty[i])
	}
	slices.SortStableFunc(served, func(a, b *Resource) int { return rank(a) - rank(b) })
	return served
}

// groups are the versions of the API in the order of discovery, which is that of Kubernetes.
var groups = []schema.GroupVersion{
	{Version: "v1"}, apps, {Group: "events.k8s.io", Version: "v1"}, batch, networking,
	{Group: "coordination.k8s.io", Version: "v1"}, {Group: "discovery.k8s.io", Version: "v1"},
}

func rank(r *Resource) int { return slices.Index(groups, r.GroupVersion()) }

var (
	core       = schema.GroupVersion{Version: "v1"}
	apps       = schema.GroupVersion{Group: "apps", Version: "v1"}
	batch      = schema.GroupVersion{Group: "batch", Version: "v1"}
	networking = schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}
)

// empty lists the resources of kinds that Portolan does not have.
var empty = []Resource{
	{Kind: core.WithKind("ConfigMap"), Plural: "configmaps", Short: []string{"cm"}, Namespaced: true},
	{Kind: core.WithKind("Secret"), Plural: "secrets", Namespaced: true},
	{Kind: core.WithKind("ServiceAccount"), Plural: "serviceaccounts", Short: []string{"sa"}, Namespaced: true},
	{Kind: apps.WithKind("DaemonSet"), Plural: "daemonsets", Short: []string{"ds"}, Categories: []string{"all"}, Namespaced: true},
	{Kind: apps.WithKind("Deployment"), Plural: "deployments", Short: []string{"deploy"}, Categories: []string{"all"}, Namespaced: true},
	{Kind: apps.WithKind("ReplicaSet"), Plural: "replicasets", Short: []string{"rs"}, Categories: []string{"all"}, Namespaced: true},
	{Kind: apps.WithKind("StatefulSet"), Plural: "statefulsets", Short: []string{"sts"}, Categories: []string{"all"}, Namespaced: true},
	{Kind: batch.WithKind("CronJob"), Plural: "cronjobs", Short: []string{"cj"}, Categories: []string{"all"}, Namespaced: true},
	{Kind: batch.WithKind("Job"), Plural: "jobs", Categories: []string{"all"}, Namespaced: true},
	{Kind: networking.WithKind("Ingress"), Plural: "ingresses", Short: []string{"ing"}, Namespaced: true},
	{Kind: networking.WithKind("IngressClass"), Plural: "ingressclasses"},
	{Kind: networking.WithKind("IPAddress"), Plural: "ipaddresses", Short: []string{"ip"}},
	{Kind: networking.WithKind("NetworkPolicy"), Plural: "networkpolicies", Short: []string{"netpol"}, Namespaced: true},
	{Kind: networking.WithKind("ServiceCIDR"), Plural: "servicecidrs"},
}
