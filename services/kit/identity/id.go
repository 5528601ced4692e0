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
	DNSSvc      Role = "dnssvc"
	NodeAgent   Role = "nodeagent" // always with the name of its node
	// Operator is a person or program that may call every method. It may have a name.
	Operator Role = "operator"
	// Viewer is a person or program that may read everything. It may have a name.
	Viewer   Role = "viewer"
	NATS     Role = "nats"     // a NATS server
	Postgres Role = "postgres" // a Postgres server
)

// Roles lists all roles.
func Roles() []Role {
	return []Role{Registry, Allocator, EndpointCtl, DNSSvc, NodeAgent, Operator, Viewer, NATS, Postgres}
}

// DefaultTrustDomain is the trust domain of an installation that does not configure one.
const DefaultTrustDomain = "portolan"

// ID is the identity of a daemon, person or server.
type ID struct {
	TrustDomain string
	Role        Role
	// Name is the node of a node agent, or the name of an operator or viewer. It is empty for other
	// roles.
	Name string
}

// Path returns the role and, if the ID has one, the name: nodeagent/n1.
func (id ID) Path() string {
	if id.Name == "" {
		return string(id.Role)
	}
	return string(id.Role) + "/" + id.Name
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
	case id.Name != "" && !mayHaveName(id.Role):
		return fmt.Errorf("role %s takes no name; %q has one", id.Role, id.Path())
	case id.Name != "" && !consistsOf(id.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"):
		return fmt.Errorf("name %q: want letters, digits, dots and dashes", id.Name)
	}
	return nil
}

// mayHaveName reports whether a role may have a name.
func mayHaveName(role Role) bool { return role == NodeAgent || role == Operator || role == Viewer }

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

// ParsePath parses ROLE or ROLE/NAME.
func ParsePath(trustDomain, path string) (ID, error) {
	role, name, cut := strings.Cut(path, "/")
	id := ID{TrustDomain: trustDomain, Role: Role(role), Name: name}
	if cut && name == "" {
		return ID{}, fmt.Errorf("%q ends in a slash", path)
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
	return id, nil
}
