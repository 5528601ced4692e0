package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Role is the role of a daemon, person or server: the first element of the path of a SPIFFE ID.
type Role string

// The roles.
const (
	Registry    Role = "registry"
	Allocator   Role = "allocator"
	EndpointCtl Role = "endpointctl"
	LBCtl       Role = "lbctl"
	DNSSvc      Role = "dnssvc"
	NodeAgent   Role = "nodeagent" // always with the name of its node
	Edge        Role = "edge"      // always with the name of its node
	// KubeAPI serves the API of Kubernetes. It makes calls on behalf of its clients.
	KubeAPI Role = "kubeapi"
	// Operator is a person or program that may call every method. With a namespace, it reads and
	// writes objects of that namespace only.
	Operator Role = "operator"
	// Viewer is a person or program that may read everything. With a namespace, it reads objects of
	// that namespace only.
	Viewer Role = "viewer"
	// Workload is a program that registers pods of its own on one node, such as portolan run. It has
	// the name of the node and may have a namespace.
	Workload Role = "workload"
	// Registrar registers the containers and units of one node as pods. It has the name of the node and
	// may have a namespace.
	Registrar Role = "registrar"
	// Monitor is a program that reads metrics and health over HTTP, such as Prometheus. It may call no
	// method. It may have a name.
	Monitor Role = "monitor"
	// LBProvider is a load-balancer provider, towards lbctl. It may call no method, and may have a name.
	LBProvider Role = "lbprovider"
	NATS       Role = "nats" // a NATS server, towards its clients
	// NATSRoute is a NATS server towards the other servers of its cluster. Only the authority for
	// routes issues its certificates, so no daemon and no client of NATS is one of them.
	NATSRoute Role = "natsroute"
	Postgres  Role = "postgres" // a Postgres server
)

// Roles lists all roles.
func Roles() []Role {
	return []Role{Registry, Allocator, EndpointCtl, LBCtl, DNSSvc, NodeAgent, Edge, KubeAPI, Operator, Viewer, Workload, Registrar, Monitor, LBProvider, NATS, NATSRoute, Postgres}
}

// OfNode reports whether the IDs of a role always have the name of a node, because each belongs to one
// machine.
func (r Role) OfNode() bool { return slices.Contains([]Role{NodeAgent, Edge, Workload, Registrar}, r) }

// DefaultTrustDomain is the trust domain of an installation that does not configure one.
const DefaultTrustDomain = "portolan"

// ID is the identity of a daemon, person or server.
type ID struct {
	TrustDomain string
	Role        Role
	// Name is the node of a node agent, an edge, a workload or a registrar, or the name of a monitor or a
	// load-balancer provider. It is empty for other roles.
	Name string
	// Namespace is the namespace that an operator, a viewer, a workload or a registrar is bound to. It is
	// empty for one of all namespaces, and for other roles.
	Namespace string
}

// Path returns the role and, if the ID has them, name and namespace: nodeagent/n1, operator/shop or
// workload/n1/default.
func (id ID) Path() string {
	path := string(id.Role)
	for _, part := range []string{id.Name, id.Namespace} {
		if part != "" {
			path += "/" + part
		}
	}
	return path
}

// FileName returns the base name of the files of the ID's certificate: nodeagent-n1, operator@shop
// or workload-n1@default. Role names have no dash and names have no @, so no two IDs share a file.
func (id ID) FileName() string {
	base := strings.ReplaceAll(ID{Role: id.Role, Name: id.Name}.Path(), "/", "-")
	if id.Namespace != "" {
		base += "@" + id.Namespace
	}
	return base
}

// URI returns the ID in the form used in certificates.
func (id ID) URI() *url.URL {
	return &url.URL{Scheme: "spiffe", Host: id.TrustDomain, Path: "/" + id.Path()}
}

// String returns the ID as text: spiffe://portolan/nodeagent/n1.
func (id ID) String() string { return id.URI().String() }

// Validate returns an error if the ID is not valid.
func (id ID) Validate() error {
	switch {
	case !consistsOf(id.TrustDomain, "abcdefghijklmnopqrstuvwxyz0123456789.-_"):
		return fmt.Errorf("trust domain %q: want lower-case letters, digits, dots and dashes, such as portolan or prod.example.com", id.TrustDomain)
	case !slices.Contains(Roles(), id.Role):
		return fmt.Errorf("role %q is not known; roles are %s", id.Role, words(Roles()))
	case id.Role == NodeAgent && id.Name == "":
		return errors.New("a node agent is named by its node: nodeagent/NODE")
	case id.Role == Edge && id.Name == "":
		return errors.New("an edge is named by its node: edge/NODE")
	case id.Role == Workload && id.Name == "":
		return errors.New("a workload is named by its node: workload/NODE or workload/NODE/NAMESPACE")
	case id.Role == Registrar && id.Name == "":
		return errors.New("a registrar is named by its node: registrar/NODE or registrar/NODE/NAMESPACE")
	case id.Namespace != "" && !slices.Contains([]Role{Operator, Viewer, Workload, Registrar}, id.Role):
		return fmt.Errorf("role %s takes no namespace; %q has one", id.Role, id.Path())
	case id.Namespace != "" && !consistsOf(id.Namespace, "abcdefghijklmnopqrstuvwxyz0123456789-"):
		return fmt.Errorf("namespace %q: want lower-case letters, digits and dashes", id.Namespace)
	case id.Name != "" && !hasName(id.Role):
		return fmt.Errorf("role %s takes no name; %q has one", id.Role, id.Path())
	case id.Name != "" && !consistsOf(id.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"):
		return fmt.Errorf("name %q: want letters, digits, dots and dashes", id.Name)
	}
	return nil
}

// hasName reports whether the IDs of a role may have a name.
func hasName(role Role) bool {
	return role.OfNode() || role == Monitor || role == LBProvider
}

// maxNameLength is the largest length of a trust domain and of a name, as in SPIFFE, in bytes.
const maxNameLength = 255

// consistsOf reports whether a text is a possible name that consists only of the given letters.
func consistsOf(text, letters string) bool {
	return text != "" && len(text) <= maxNameLength && strings.Trim(text, letters) == "" && text != "." && text != ".."
}

func words(roles []Role) string {
	texts := make([]string, len(roles))
	for i, role := range roles {
		texts[i] = string(role)
	}
	return strings.Join(texts, ", ")
}

// ParsePath parses ROLE, ROLE/NAME, ROLE/NAME/NAMESPACE or, for operators and viewers,
// ROLE/NAMESPACE.
func ParsePath(trustDomain, path string) (ID, error) {
	if strings.HasSuffix(path, "/") {
		return ID{}, fmt.Errorf("%q ends in a slash", path)
	}
	role, rest, _ := strings.Cut(path, "/")
	id := ID{TrustDomain: trustDomain, Role: Role(role)}
	if id.Role == Operator || id.Role == Viewer {
		id.Namespace = rest
	} else {
		id.Name, id.Namespace, _ = strings.Cut(rest, "/")
	}
	return id, id.Validate()
}

// FromCertificate returns the identity in a certificate.
func FromCertificate(cert *x509.Certificate) (ID, error) {
	if len(cert.URIs) != 1 || cert.URIs[0].Scheme != "spiffe" {
		return ID{}, errors.New("names no role: it needs exactly one URI SAN, spiffe://TRUST-DOMAIN/ROLE (portolan certs issue makes such certificates)")
	}
	uri := cert.URIs[0]
	id, err := ParsePath(uri.Host, strings.TrimPrefix(uri.Path, "/"))
	if err != nil {
		return ID{}, fmt.Errorf("has the URI SAN %s: %w", uri, err)
	}
	if uri.String() != id.String() { // such as with a query, a user or an escaped letter, which SPIFFE forbids
		return ID{}, fmt.Errorf("has the URI SAN %s: want %s", uri, id)
	}
	return id, nil
}
