package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/kubeapi/internal/resource"
	"portolan.dev/kubeapi/internal/wire"
)

// addDiscovery adds the documents of the groups and versions of the API.
func addDiscovery(all map[string]func(*request) error) {
	for _, version := range versions() {
		path := "/apis/" + version.String()
		if version.Group == "" {
			path = "/api/" + version.Version
		} else {
			group := groupOf(version)
			all["/apis/"+version.Group] = document(&group)
		}
		all[path] = document(resourceList(version))
	}
}

// versions returns the versions of the API in the order of discovery. Each group has one.
func versions() []schema.GroupVersion {
	var found []schema.GroupVersion
	for _, r := range resource.All {
		if version := r.GroupVersion(); !slices.Contains(found, version) {
			found = append(found, version)
		}
	}
	return found
}

// document returns the handler of a document that never changes.
func document(o runtime.Object) func(*request) error {
	return func(req *request) error {
		if err := req.onlyGet(); err != nil {
			return err
		}
		format, err := wire.Negotiate(req.r)
		if err != nil {
			return err
		}
		return req.send(http.StatusOK, format, o)
	}
}

func (req *request) onlyGet() error {
	if req.r.Method == http.MethodGet || req.r.Method == http.MethodHead {
		return nil
	}
	return errNotAllowed
}

func groupOf(version schema.GroupVersion) metav1.APIGroup {
	served := metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version}
	return metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"},
		Name:     version.Group, Versions: []metav1.GroupVersionForDiscovery{served}, PreferredVersion: served,
	}
}

func resourceList(version schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: version.String()}
	if version.Group != "" { // in Kubernetes the document of /api/v1 has no apiVersion
		list.APIVersion = "v1"
	}
	for _, r := range resource.All {
		if r.GroupVersion() != version {
			continue
		}
		one := metav1.APIResource{
			Name: r.Plural, SingularName: r.Singular(), Namespaced: r.Namespaced, Kind: r.Kind.Kind, Verbs: r.Verbs(), ShortNames: r.Short, Categories: r.Categories,
		}
		list.APIResources = append(list.APIResources, one)
		for sub, verbs := range r.Subresources() {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: r.Plural + "/" + sub, Namespaced: r.Namespaced, Kind: r.Kind.Kind, Verbs: verbs})
		}
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// legacyRoot answers /api: the versions of the group "".
func legacyRoot(req *request) error {
	return req.root(func(version schema.GroupVersion) bool { return version.Group == "" }, &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: req.r.Host}},
	})
}

// groupsRoot answers /apis: all other groups.
func groupsRoot(req *request) error {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, version := range versions() {
		if version.Group != "" {
			group := groupOf(version)
			group.TypeMeta = metav1.TypeMeta{}
			list.Groups = append(list.Groups, group)
		}
	}
	return req.root(func(version schema.GroupVersion) bool { return version.Group != "" }, list)
}

// root answers with all groups and their resources in one document if the client accepts it. Otherwise it
// answers with the older document.
func (req *request) root(of func(schema.GroupVersion) bool, older runtime.Object) error {
	if err := req.onlyGet(); err != nil {
		return err
	}
	format, err := wire.Negotiate(req.r, wire.Discovery)
	if err != nil {
		return err
	}
	if format.As != wire.Discovery {
		return req.send(http.StatusOK, format, older)
	}
	list := &discoveryv2.APIGroupDiscoveryList{Items: []discoveryv2.APIGroupDiscovery{}}
	list.SetGroupVersionKind(discoveryv2.SchemeGroupVersion.WithKind(string(wire.Discovery)))
	for _, version := range versions() {
		if of(version) {
			list.Items = append(list.Items, groupDiscovery(version))
		}
	}
	body, err := format.Encode(list)
	if err != nil {
		return err
	}
	// Clients read the version from the content type.
	req.sendBytes(http.StatusOK, format.MediaType+";g="+discoveryv2.GroupName+";v="+discoveryv2.SchemeGroupVersion.Version+";as="+string(wire.Discovery), body)
	return nil
}

func groupDiscovery(version schema.GroupVersion) discoveryv2.APIGroupDiscovery {
	served := discoveryv2.APIVersionDiscovery{Version: version.Version, Freshness: discoveryv2.DiscoveryFreshnessCurrent}
	for _, r := range resource.All {
		if r.GroupVersion() == version {
			served.Resources = append(served.Resources, resourceDiscovery(r))
		}
	}
	slices.SortFunc(served.Resources, func(a, b discoveryv2.APIResourceDiscovery) int { return strings.Compare(a.Resource, b.Resource) })
	return discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: version.Group}, Versions: []discoveryv2.APIVersionDiscovery{served}}
}

func resourceDiscovery(r *resource.Resource) discoveryv2.APIResourceDiscovery {
	kind := &metav1.GroupVersionKind{Kind: r.Kind.Kind} // of the group and version of the document
	one := discoveryv2.APIResourceDiscovery{
		Resource: r.Plural, ResponseKind: kind, Scope: discoveryv2.ScopeCluster, SingularResource: r.Singular(),
		Verbs: r.Verbs(), ShortNames: r.Short, Categories: r.Categories,
	}
	if r.Namespaced {
		one.Scope = discoveryv2.ScopeNamespace
	}
	subs := r.Subresources()
	for _, name := range slices.Sorted(maps.Keys(subs)) {
		one.Subresources = append(one.Subresources, discoveryv2.APISubresourceDiscovery{Subresource: name, ResponseKind: kind, Verbs: subs[name]})
	}
	return one
}
