package kubeapi

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/google/go-cmp/cmp"
)

// paths has the lists of the resources that informers follow.
var paths = map[string]string{
	"namespaces": "/api/v1/namespaces", "nodes": "/api/v1/nodes", "pods": "/api/v1/pods", "services": "/api/v1/services",
	"endpoints": "/api/v1/endpoints", "events": "/api/v1/events", "endpointslices": "/apis/discovery.k8s.io/v1/endpointslices",
	"leases": "/apis/coordination.k8s.io/v1/leases", "networkpolicies": "/apis/networking.k8s.io/v1/networkpolicies",
}

// notice is a call of an informer for one object; tools/oldclient prints such lines.
type notice struct {
	Type          string // SYNCED, ADDED, UPDATED or DELETED
	Resource, Key string
	Version       string // the resource version
}

// view has the objects that a client knows from its notices.
type view struct {
	mu       sync.Mutex
	synced   bool
	objects  map[string]string // resource versions, by resource and key
	repeated map[string]bool   // objects that were told again without a change
	faults   []string          // notices that contradict earlier ones
}

func newView() *view { return &view{objects: map[string]string{}, repeated: map[string]bool{}} }

// tell adds a notice.
func (v *view) tell(n notice) {
	v.mu.Lock()
	defer v.mu.Unlock()
	name := n.Resource + " " + n.Key
	before, known := v.objects[name]
	if n.Type == "ADDED" && known || (n.Type == "UPDATED" || n.Type == "DELETED") && !known {
		v.faults = append(v.faults, fmt.Sprintf("%v; the version before is %q", n, before))
	}
	switch n.Type {
	case "SYNCED":
		v.synced = true
	case "ADDED", "UPDATED":
		v.objects[name] = n.Version
		if n.Version == before {
			v.repeated[name] = true
		}
	case "DELETED":
		delete(v.objects, name)
	default:
		v.faults = append(v.faults, fmt.Sprintf("unknown: %v", n))
	}
}

// complete returns an error unless the client has its first complete view.
func (v *view) complete() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.synced {
		return errors.New("not synced")
	}
	return nil
}

// is returns an error unless the view has these objects.
func (v *view) is(want map[string]string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case len(v.faults) > 0:
		return fmt.Errorf("contradictions: %v", v.faults)
	case !maps.Equal(v.objects, want):
		return fmt.Errorf("the view differs (-want +got):\n%s", cmp.Diff(want, v.objects))
	}
	return nil
}

// wasRepeated returns an error unless all objects have been told again without a change.
func (v *view) wasRepeated() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name := range v.objects {
		if !v.repeated[name] {
			return fmt.Errorf("%s was not told again", name)
		}
	}
	return nil
}

// contents returns the objects of the registry, in the form of a view.
func (i *installation) contents() map[string]string {
	i.Helper()
	found := map[string]string{}
	for resource, path := range paths {
		list, err := i.get(path).object(i).ToList()
		if err != nil {
			i.Fatal(err)
		}
		for _, o := range list.Items {
			key := o.GetName()
			if o.GetNamespace() != "" {
				key = o.GetNamespace() + "/" + key
			}
			found[resource+" "+key] = o.GetResourceVersion()
		}
	}
	return found
}
