package resource

import (
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/services/kube"
)

// Codecs lists the codecs of the kinds that Portolan has and the server serves, each with the preferred
// version of Kubernetes' API first.
var Codecs = []*kube.Codec{
	kube.Namespace, kube.Node, kube.Service, kube.Pod, kube.Endpoints, kube.EventWithSource, kube.EndpointSlice, kube.Lease, kube.NewEvent,
}

// All lists all resources, ordered by the versions of the API.
var All = all()

func all() []*Resource {
	served := make([]*Resource, 0, len(Codecs)+len(empty)+len(reviews))
	for _, codec := range Codecs {
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
	for i := range reviews {
		served = append(served, &reviews[i])
	}
	slices.SortStableFunc(served, func(a, b *Resource) int { return rank(a) - rank(b) })
	return served
}

// groups are the versions of the API in the order of discovery, which is the same as in Kubernetes.
var groups = []schema.GroupVersion{
	{Version: "v1"}, apps, {Group: "events.k8s.io", Version: "v1"}, authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion, batch,
	networking, {Group: "coordination.k8s.io", Version: "v1"}, {Group: "discovery.k8s.io", Version: "v1"},
}

func rank(r *Resource) int { return slices.Index(groups, r.GroupVersion()) }

var (
	core       = schema.GroupVersion{Version: "v1"}
	apps       = schema.GroupVersion{Group: "apps", Version: "v1"}
	batch      = schema.GroupVersion{Group: "batch", Version: "v1"}
	networking = schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}
)

// empty lists the resources of kinds that Portolan lacks.
var empty = []Resource{
	{Kind: core.WithKind("ConfigMap"), Plural: "configmaps", Short: []string{"cm"}, Namespaced: true},
	{Kind: core.WithKind("LimitRange"), Plural: "limitranges", Short: []string{"limits"}, Namespaced: true},
	{Kind: core.WithKind("PersistentVolume"), Plural: "persistentvolumes", Short: []string{"pv"}},
	{Kind: core.WithKind("PersistentVolumeClaim"), Plural: "persistentvolumeclaims", Short: []string{"pvc"}, Namespaced: true},
	{Kind: core.WithKind("ReplicationController"), Plural: "replicationcontrollers", Short: []string{"rc"}, Categories: []string{"all"}, Namespaced: true},
	{Kind: core.WithKind("ResourceQuota"), Plural: "resourcequotas", Short: []string{"quota"}, Namespaced: true},
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

// reviews lists the resources by which clients ask for their own identity and permissions.
var reviews = []Resource{
	{
		Kind: authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), Plural: "selfsubjectreviews",
		Review: func() Review { return &authenticationv1.SelfSubjectReview{} },
	},
	{
		Kind: authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), Plural: "selfsubjectaccessreviews",
		Review: func() Review { return &authorizationv1.SelfSubjectAccessReview{} },
	},
	{
		Kind: authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"), Plural: "selfsubjectrulesreviews",
		Review: func() Review { return &authorizationv1.SelfSubjectRulesReview{} },
	},
}
