package main

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	kubev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// followed has the followed kinds of each API group, by the names of their resources.
var followed = []struct {
	path string
	add  func(*runtime.Scheme) error
	of   map[string]runtime.Object
}{
	{"/api", kubev1.AddToScheme, map[string]runtime.Object{
		"namespaces": &kubev1.Namespace{}, "nodes": &kubev1.Node{}, "pods": &kubev1.Pod{}, "services": &kubev1.Service{},
		"endpoints": &kubev1.Endpoints{}, "events": &kubev1.Event{},
	}},
	{"/apis", discoveryv1.AddToScheme, map[string]runtime.Object{"endpointslices": &discoveryv1.EndpointSlice{}}},
	{"/apis", coordinationv1.AddToScheme, map[string]runtime.Object{"leases": &coordinationv1.Lease{}}},
	{"/apis", networkingv1.AddToScheme, map[string]runtime.Object{"networkpolicies": &networkingv1.NetworkPolicy{}}},
}

// newInformers returns an informer for each resource. It does not use the typed clients and the factory of
// client-go, because they link every API of Kubernetes and take a minute to build.
func newInformers(kubeconfig string, resync time.Duration) (map[string]cache.SharedIndexInformer, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	informers := map[string]cache.SharedIndexInformer{}
	for _, version := range followed {
		scheme := runtime.NewScheme()
		if err := version.add(scheme); err != nil {
			return nil, err
		}
		groupVersion := scheme.PrioritizedVersionsAllGroups()[0]
		metav1.AddToGroupVersion(scheme, groupVersion)
		own := rest.CopyConfig(config)
		own.APIPath, own.GroupVersion = version.path, &groupVersion
		own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
		client, err := rest.RESTClientFor(own)
		if err != nil {
			return nil, err
		}
		for resource, object := range version.of {
			source := cache.NewListWatchFromClient(client, resource, metav1.NamespaceAll, fields.Everything())
			informers[resource] = cache.NewSharedIndexInformer(source, object, resync, cache.Indexers{})
		}
	}
	return informers, nil
}
