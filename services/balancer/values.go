package balancer

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"
)

// named is a value of an annotation with its meaning.
type named[T any] struct {
	name  string
	value T
}

// nameOf returns the name of a value.
func nameOf[T comparable](values []named[T], value T) string {
	for _, v := range values {
		if v.value == value {
			return v.name
		}
	}
	return ""
}

// namesOf returns the names of values, for people.
func namesOf[T any](values []named[T]) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.name
	}
	return strings.Join(texts, ", ")
}

var (
	proxyProtocols = []named[ProxyProtocol]{{"v1", ProxyV1}, {"v2", ProxyV2}, {"*", ProxyV1}}
	// cloudProxyProtocols has the only value in clouds: all ports.
	cloudProxyProtocols = []named[ProxyProtocol]{{"*", ProxyV1}}
	backendProtocols    = []named[BackendProtocol]{
		{"tcp", BackendTCP}, {"ssl", BackendSSL}, {"http", BackendHTTP}, {"https", BackendHTTPS}, {"h2c", BackendH2C}, {"grpc", BackendGRPC},
	}
	cloudBackendProtocols = backendProtocols[:4]
	checkProtocols        = []named[CheckProtocol]{{"tcp", CheckTCP}, {"ssl", CheckSSL}, {"http", CheckHTTP}, {"https", CheckHTTPS}, {"grpc", CheckGRPC}}
	cloudCheckProtocols   = checkProtocols[:4]
	logFormats            = []named[LogFormat]{{"elb", LogELB}, {"json", LogJSON}}
	logIntervals          = []named[time.Duration]{
		{"5m", 5 * time.Minute}, {"60m", time.Hour}, {"1h", time.Hour}, {"5", 5 * time.Minute}, {"60", time.Hour},
	}
	cloudLogIntervals = logIntervals[3:]
)

// oneOf sets a field to one of the given values. Their names are not case-sensitive.
func oneOf[T any](field func(*Settings) *T, values []named[T]) setter {
	rule := "must be one of " + namesOf(values)
	if len(values) == 1 {
		rule = "must be " + values[0].name
	}
	return func(r *reader, text string) string {
		for _, v := range values {
			if strings.EqualFold(v.name, text) {
				*field(r.settings) = v.value
				return ""
			}
		}
		return rule
	}
}

// boolean sets a field to true or false.
func boolean(field func(*Settings) *bool) setter {
	return oneOf(field, []named[bool]{{"true", true}, {"false", false}})
}

// wholeSeconds sets a field to a number of seconds.
func wholeSeconds(field func(*Settings) *time.Duration, least, most int) setter {
	return func(r *reader, text string) string {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return fmt.Sprintf("must be a number of seconds from %d to %d", least, most)
		}
		*field(r.settings) = time.Duration(n) * time.Second
		return ""
	}
}

// duration sets a field to a time such as 2s or 1m30s. A number alone is one of seconds.
func duration(field func(*Settings) *time.Duration, least, most time.Duration) setter {
	return func(r *reader, text string) string {
		if _, err := strconv.Atoi(text); err == nil {
			text += "s"
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < least || d > most {
			return fmt.Sprintf("must be a time such as 30s, from %s to %s", brief(least), brief(most))
		}
		*field(r.settings) = d
		return ""
	}
}

// brief returns a duration without parts that are zero: 1h and not 1h0m0s.
func brief(d time.Duration) string {
	text := d.String()
	for _, zero := range []struct{ end, instead string }{{"m0s", "m"}, {"h0m", "h"}} {
		if short, ok := strings.CutSuffix(text, zero.end); ok {
			text = short + zero.instead
		}
	}
	return text
}

// count sets a field to a number.
func count(field func(*Settings) *int, least, most int) setter {
	return func(r *reader, text string) string {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return fmt.Sprintf("must be a number from %d to %d", least, most)
		}
		*field(r.settings) = n
		return ""
	}
}

// split returns the parts of a comma-separated list, without empty ones.
func split(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// setInternal returns a setter for one of the ways to ask for an internal load balancer. wanted is the
// value that asks for it; "": any value but "false".
func setInternal(wanted string) setter {
	return func(r *reader, text string) string {
		r.settings.Internal = !strings.EqualFold(text, "false")
		if wanted != "" {
			r.settings.Internal = strings.EqualFold(text, wanted)
		}
		return ""
	}
}

// setProxyFrom sets the clients that send PROXY headers.
func setProxyFrom(r *reader, text string) string {
	var from []netip.Prefix
	for _, part := range split(text) {
		prefix, err := netip.ParsePrefix(part)
		if addr, malformed := netip.ParseAddr(part); malformed == nil && addr.Zone() == "" {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil || prefix.Addr().Is4In6() {
			return fmt.Sprintf("%.64q is no range of addresses: give ranges such as 10.0.0.0/8, or addresses, separated by commas", part)
		}
		from = append(from, prefix.Masked())
	}
	if len(from) == 0 {
		return "must be ranges of addresses such as 10.0.0.0/8, separated by commas"
	}
	r.settings.ProxyFrom = from
	return ""
}

const refRule = "is no certificate: want secret/NAME, file/NAME, NAME, or an ARN, whose last part is the name; a name has letters, digits, '-', '_' and '.', and does not begin with '.'"

// parseRef reads the name of a certificate.
func parseRef(text string) (CertificateRef, string) {
	ref := CertificateRef{Name: text}
	kind, name, found := strings.Cut(text, "/")
	switch {
	case strings.HasPrefix(text, "arn:"):
		ref.Name = text[max(strings.LastIndexByte(text, '/'), strings.LastIndexByte(text, ':'))+1:]
	case found && kind == "secret":
		ref = CertificateRef{Kind: CertificateSecret, Name: name}
	case found && kind == "file":
		ref = CertificateRef{Kind: CertificateFile, Name: name}
	}
	if !isFileName(ref.Name) {
		return CertificateRef{}, fmt.Sprintf("%.128q %s", text, refRule)
	}
	return ref, ""
}

// maxName is the longest name of a certificate or a folder in bytes.
const maxName = 253

// isFileName reports whether a name can be the name of a file in a folder. It is not a path, and the
// file is not hidden.
func isFileName(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '.' {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' && c != '.'
	})
}

// setCertificates sets the certificates. The ports also speak TLS if a certificate is invalid.
func setCertificates(r *reader, text string) string {
	r.settings.TLS = true
	var refs []CertificateRef
	for _, part := range split(text) {
		port, text, ofPort := strings.Cut(part, "=")
		if !ofPort {
			port, text = "", part
		}
		ref, why := parseRef(text)
		if why != "" {
			return why
		}
		if ref.Port = port; ofPort && !r.hasPort(port) {
			return fmt.Sprintf("the service has no port %.64q: give the number or name of one of its ports before the =", port)
		}
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	if len(refs) == 0 {
		return fmt.Sprintf("%.64q %s", text, refRule)
	}
	r.settings.Certificates = refs
	return ""
}

// hasPort reports whether the service has a port of a number or name.
func (r *reader) hasPort(text string) bool {
	return slices.ContainsFunc(r.ports, func(p *corev1.ServicePort) bool { return names(text, p) })
}

// setTLSPorts sets the ports that speak TLS, which the service must have.
func setTLSPorts(r *reader, text string) string {
	if text == "*" {
		return ""
	}
	parts := split(text)
	for _, part := range parts {
		if !r.hasPort(part) {
			return fmt.Sprintf("the service has no port %.64q: give numbers or names of its ports, separated by commas", part)
		}
	}
	if len(parts) == 0 {
		return "must be numbers or names of the service's ports, separated by commas"
	}
	r.settings.TLSPorts = parts
	return ""
}

// setTLSPolicy sets the policy, which must be in the table of policies.
func setTLSPolicy(r *reader, text string) string {
	if _, ok := PolicyOf(text); !ok {
		return "there is no such policy of TLS: use one of " + strings.Join(PolicyNames(), ", ")
	}
	r.settings.TLSPolicy = text
	return ""
}

// setBackendCA sets the authority of the backends' certificates. If the name is invalid, no backend is
// trusted, because the service asks for verification.
func setBackendCA(r *reader, text string) string {
	ref, why := parseRef(text)
	r.settings.BackendCA = &ref
	return why
}

// setServerName sets the name in the certificates of backends.
func setServerName(r *reader, text string) string {
	for label := range strings.SplitSeq(text, ".") {
		if !isFileName(label) || len(label) > 63 || len(text) > maxName {
			return "must be a DNS name, such as web.example.com"
		}
	}
	r.settings.BackendServerName = text
	return ""
}

// folder sets a field to the path of a folder below another one.
func folder(field func(*Settings) *string) setter {
	return func(r *reader, text string) string {
		clean := path.Clean(strings.Trim(text, "/"))
		for part := range strings.SplitSeq(clean, "/") {
			if !isFileName(part) || len(clean) > maxName {
				return "must be the path of a folder below the one of the edge's access logs: names of letters, digits, '-', '_' and '.', separated by '/', which do not begin with '.'"
			}
		}
		*field(r.settings) = clean
		return ""
	}
}

const (
	maxPath = 1024 // bytes of the path of checks, as in clouds
	maxTags = 50
)

// setCheckPath sets the path of requests that check a backend.
func setCheckPath(r *reader, text string) string {
	if text[0] != '/' || len(text) > maxPath || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return fmt.Sprintf("must be a path such as /healthz, of at most %d printable characters of ASCII", maxPath)
	}
	r.settings.Check.Path = text
	return ""
}

// setCheckPort sets the port of checks. traffic-port is the clouds' name for the port of the traffic.
func setCheckPort(r *reader, text string) string {
	if text == "traffic-port" {
		r.settings.Check.Port = 0
		return ""
	}
	if why := count(func(s *Settings) *int { return &s.Check.Port }, 1, 65535)(r, text); why != "" {
		return why + ", or traffic-port"
	}
	return ""
}

// setSourceGroups sets the groups. It keeps invalid names. No group has such a name, so they allow no
// client.
func setSourceGroups(r *reader, text string) string {
	groups := split(text)
	if len(groups) == 0 {
		groups = []string{text}
	}
	r.settings.SourceGroups = groups
	for _, group := range groups {
		if !isFileName(group) {
			return fmt.Sprintf("%.64q is no name of a group: give names of letters, digits, '-', '_' and '.', separated by commas", group)
		}
	}
	return ""
}

// setTags sets the tags, a list of pairs.
func setTags(r *reader, text string) string {
	tags := map[string]string{}
	for _, pair := range split(text) {
		key, value, _ := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		if _, twice := tags[key]; key == "" || twice {
			return fmt.Sprintf("%.64q: want KEY=VALUE pairs with different keys, separated by commas", pair)
		}
		tags[key] = strings.TrimSpace(value)
	}
	if len(tags) > maxTags {
		return fmt.Sprintf("has %d tags, at most %d are allowed", len(tags), maxTags)
	}
	r.settings.Tags = tags
	return ""
}
