package walls

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

var daemons = []string{"registry", "allocator", "endpointctl", "lbctl", "dnssvc", "edge", "kubeapi", "nodeagent", "registrar"}

// mayImport lists the areas (first folders) that an area may import besides itself.
var mayImport = map[string][]string{
	"api":         nil, // the contract stands alone
	"services":    {"api"},
	"registry":    {"api", "services"},
	"allocator":   {"api", "services"},
	"endpointctl": {"api", "services"},
	"lbctl":       {"api", "services"},
	"dnssvc":      {"api", "services"},
	"edge":        {"api", "services"},
	"kubeapi":     {"api", "services"},
	"nodeagent":   {"api", "services"},
	"registrar":   {"api", "services"},
	"portolan":    {"api", "services", "registry", "allocator", "endpointctl", "lbctl", "dnssvc", "edge", "kubeapi", "nodeagent", "registrar"},
	// No other area imports faults.
	"faults": {"api", "services", "registry", "allocator", "endpointctl", "lbctl", "dnssvc", "edge", "kubeapi", "nodeagent", "registrar", "portolan"},
	"tools":  nil, // each tool is a module of its own
}

// natsPlaces are the packages that may depend on NATS: the change stream, the daemons' set-up, and
// the kit.
var natsPlaces = []string{ours + "services/changes", ours + "services/daemon", ours + "services/kit"}

// speaker is the package that speaks BGP, by a library with many packages.
const speaker = ours + "nodeagent/internal/bgp/speaker"

// moduleOf returns the first folder of an import path of this repository, and "" for all other
// paths.
func moduleOf(pkg string) string {
	rest, ok := strings.CutPrefix(pkg, ours)
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

func isBelow(pkg string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return pkg == root || strings.HasPrefix(pkg, root+"/")
	})
}

// testOnly reports whether a package exists for tests: kittest, storetest, dataplanetest, all of
// faults.
func testOnly(pkg string) bool {
	return strings.HasPrefix(pkg, ours) && strings.HasSuffix(pkg, "test") || moduleOf(pkg) == "faults"
}

// ownerFormat are the packages with Kubernetes' format of the owners of fields. They are small, and import
// nothing else of Kubernetes.
var ownerFormat = []string{"sigs.k8s.io/structured-merge-diff/v6/fieldpath", "sigs.k8s.io/structured-merge-diff/v6/value"}

// kubeTypes are the packages of services that use the types of Kubernetes.
var kubeTypes = []string{ours + "services/kube", ours + "services/manifest"}

// importRefusal returns the reason why from may not import to, or "" if it may. Tests may import
// more.
func importRefusal(from, to string, test bool) string {
	a, b := moduleOf(from), moduleOf(to)
	allowed, known := mayImport[a]
	switch {
	case !known:
		return "no wall is drawn yet for the area " + strconv.Quote(a)
	case b != "" && a != b && slices.Contains(daemons, a) && slices.Contains(daemons, b):
		return "daemons never import each other; they speak through the API and the change stream"
	case b != "" && a != b && !slices.Contains(allowed, b):
		return a + " may import " + strings.Join(append([]string{a}, allowed...), ", ") + " only"
	case isBelow(from, ours+"services/kit") && b == "services" && !isBelow(to, ours+"services/kit"):
		return "services/kit is below the other packages of services; a daemon passes in what the kit needs of them"
	case testOnly(to) && !test && !testOnly(from):
		return "only tests import packages that exist for tests"
	case isBelow(to, "github.com/nats-io") && !test && (slices.Contains(daemons, a) || a == "api"):
		return "only services/changes and services/daemon know that the change stream is NATS"
	case isBelow(to, "github.com/nats-io") && !test && a == "services" && !isBelow(from, natsPlaces...):
		return "NATS is known to these only: " + strings.Join(natsPlaces, ", ")
	case isBelow(to, "github.com/osrg/gobgp") && !isBelow(from, speaker), isBelow(to, speaker) && !isBelow(from, speaker, ours+"nodeagent/internal/linux"):
		return "only an agent that is a program of its own links the library of BGP"
	case isBelow(to, ownerFormat...) && isBelow(from, ours+"services/apply"):
		return ""
	case isBelow(to, "k8s.io/api", "k8s.io/apimachinery") && isBelow(from, kubeTypes...):
		return ""
	case isBelow(to, ours+"services/kube") && a != "kubeapi" && !isBelow(from, kubeTypes...):
		return "services/kube links Kubernetes' libraries, which take long to build; read manifests by services/manifest"
	case isBelow(to, "k8s.io", "sigs.k8s.io") && a != "kubeapi" && (a != "portolan" || !test) && a != "tools":
		return "only kubeapi, services/kube, services/manifest, tests of portolan and tools use Kubernetes' libraries, which take long to build"
	case isBelow(to, "k8s.io/apiserver", "k8s.io/client-go") && a == "kubeapi" && !test:
		return "kubeapi is a server on Kubernetes' types; k8s.io/apiserver would bring a second store, and client-go is for tests"
	}
	return ""
}

func TestImports(t *testing.T) {
	for _, f := range files(t) {
		for _, spec := range f.syntax.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if why := importRefusal(f.pkg, to, f.test); why != "" {
				t.Errorf("%s: %s imports %s: %s", f.position(spec.Pos()), f.pkg, to, why)
			}
		}
	}
}

func TestRefuse(t *testing.T) {
	const inTest, inCode = true, false
	for _, c := range []struct {
		from, to string
		test, ok bool
	}{
		{"portolan.dev/api/core/v1", "google.golang.org/protobuf/proto", inCode, true},
		{"portolan.dev/services/apply", "sigs.k8s.io/structured-merge-diff/v6/fieldpath", inCode, true},
		{"portolan.dev/services/apply", "sigs.k8s.io/structured-merge-diff/v6/typed", inCode, false},
		{"portolan.dev/services/spec", "sigs.k8s.io/structured-merge-diff/v6/fieldpath", inCode, false},
		{"portolan.dev/api/core/v1", "portolan.dev/services/spec", inCode, false},
		{"portolan.dev/services/spec", "portolan.dev/api/core/v1", inCode, true},
		{"portolan.dev/services/spec", "portolan.dev/registry", inCode, false},
		{"portolan.dev/services/spec", "portolan.dev/registry", inTest, false},
		{"portolan.dev/registry/internal/api", "portolan.dev/registry/store", inCode, true},
		{"portolan.dev/registry", "portolan.dev/services/kit/app", inCode, true},
		{"portolan.dev/registry", "portolan.dev/allocator", inCode, false},
		{"portolan.dev/registry", "portolan.dev/allocator", inTest, false},
		{"portolan.dev/nodeagent", "portolan.dev/portolan/internal/dev", inCode, false},
		{"portolan.dev/portolan/internal/dev", "portolan.dev/nodeagent", inCode, true},
		{"portolan.dev/registry/store", "portolan.dev/services/kit/kittest", inCode, false},
		{"portolan.dev/registry/store", "portolan.dev/services/kit/kittest", inTest, true},
		{"portolan.dev/registry/store/storetest", "portolan.dev/services/kit/kittest", inCode, true},
		{"portolan.dev/registry/store/storetest", "testing/synctest", inCode, true},
		{"portolan.dev/dnssvc", "github.com/nats-io/nats.go", inCode, false},
		{"portolan.dev/dnssvc", "github.com/nats-io/nats.go", inTest, true},
		{"portolan.dev/services/kit/rpc", "portolan.dev/services/access", inCode, false},
		{"portolan.dev/services/kit/rpc", "portolan.dev/services/kit/identity", inCode, true},
		{"portolan.dev/services/changes", "github.com/nats-io/nats.go/jetstream", inCode, true},
		{"portolan.dev/services/spec", "github.com/nats-io/nats.go", inCode, false},
		{"portolan.dev/services/kit/app", "github.com/nats-io/nats.go", inCode, true},
		{"portolan.dev/services/manifest", "k8s.io/api/core/v1", inCode, true},
		{"portolan.dev/services/manifest", "k8s.io/client-go/kubernetes", inCode, false},
		{"portolan.dev/registrar/dir", "portolan.dev/services/kube", inCode, false},
		{"portolan.dev/portolan/internal/kubecheck", "k8s.io/api/core/v1", inTest, true},
		{"portolan.dev/services/spec", "k8s.io/api/core/v1", inTest, false},
		{"portolan.dev/registry", "sigs.k8s.io/yaml", inCode, false},
		{"portolan.dev/services/kube", "k8s.io/api/core/v1", inCode, true},
		{"portolan.dev/kubeapi/internal/server", "k8s.io/apiserver/pkg/server", inCode, false},
		{"portolan.dev/kubeapi", "portolan.dev/registry", inTest, false},
		{"portolan.dev/nodeagent/internal/bgp/speaker", "github.com/osrg/gobgp/v4/api", inCode, true},
		{"portolan.dev/nodeagent/internal/bgp", "github.com/osrg/gobgp/v4/api", inCode, false},
		{"portolan.dev/nodeagent/internal/linux", "portolan.dev/nodeagent/internal/bgp/speaker", inCode, true},
		{"portolan.dev/nodeagent", "portolan.dev/nodeagent/internal/bgp/speaker", inCode, false},
		{"portolan.dev/unheard/of", "fmt", inCode, false},
	} {
		if why := importRefusal(c.from, c.to, c.test); (why == "") != c.ok {
			t.Errorf("refuse(%s, %s, test %v) = %q, want allowed %v", c.from, c.to, c.test, why, c.ok)
		}
	}
}
