package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ClockSkew is the time by which the authority sets NotBefore of a certificate back, so that
// machines with slow clocks accept the certificate at once.
const ClockSkew = 5 * time.Minute

// Denial denies certificates that have not expired: either all certificates of an identity that were
// issued before some time, or the certificate with a serial number.
type Denial struct {
	Identity string // path of the identity, such as nodeagent/n1; or empty
	Serial   string // serial number in small hexadecimal digits without leading zeros; or empty
	// IssuedBefore is the time until which the denied certificates of Identity were issued. It
	// counts in whole seconds, as certificates do: a certificate that was issued in the same second
	// is denied.
	IssuedBefore time.Time
	Reason       string // for people
}

// DenyList holds the denials that a process enforces: at handshakes in both directions, at each
// call, and for open streams and connections at the moment when it changes. The daemons fill it
// from the registry's objects of the kind Revocation. A nil list denies nothing. It is safe for
// concurrent use.
type DenyList struct {
	current atomic.Pointer[denySet] // never nil
	used    *prometheus.CounterVec  // by the place at which a certificate was refused

	mu      sync.Mutex
	entries map[string]Denial // by the name that Update got
	guards  map[*guard]struct{}
}

// denySet is an immutable set of denials.
type denySet struct {
	identities map[string]Denial // the denial of each identity with the latest IssuedBefore
	serials    map[string]Denial
}

// guard waits until the certificate of a stream or connection is denied.
type guard struct {
	cert   certificate
	denied func(error)
}

// certificate has the properties of a certificate that a DenyList looks at. They are computed once
// for each connection, because calls are checked one by one.
type certificate struct {
	path    string // of the identity; empty: none
	serial  string
	lineage string // as Lineage returns it
	issued  int64  // Unix time in seconds
}

func certificateOf(cert *x509.Certificate, id ID) certificate {
	return certificate{path: id.Path(), serial: SerialOf(cert), lineage: Lineage(cert), issued: IssuedAt(cert).Unix()}
}

// IssuedAt returns the time at which a certificate was issued. This is ClockSkew after its NotBefore, or
// a tenth of the lifetime after it if that is less, which is an eleventh of the time from NotBefore to
// NotAfter. If another authority sets NotBefore less far back, the result is too late by up to ClockSkew.
//
// A rule without ClockSkew would be exact for such an authority. But with certificates of Portolan's own
// authority it would deny each certificate that was issued within five minutes after the denial, for
// example the replacement of a stolen one.
func IssuedAt(cert *x509.Certificate) time.Time {
	return cert.NotBefore.Add(min(ClockSkew, cert.NotAfter.Sub(cert.NotBefore)/11))
}

func newDenyList(reg prometheus.Registerer) *DenyList {
	l := &DenyList{entries: map[string]Denial{}, guards: map[*guard]struct{}{}, used: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_tls_denied_total",
		Help: "Uses of revoked certificates that were refused, by place: connection, call or stream.",
	}, []string{"place"})}
	for _, place := range []string{atConnection, atCall, atStream} {
		l.used.WithLabelValues(place)
	}
	l.current.Store(&denySet{})
	if reg != nil {
		reg.MustRegister(l.used, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_tls_revocations", Help: "Revocations that the daemon enforces.",
		}, func() float64 { return float64(l.Len()) }))
	}
	return l
}

// The places at which certificates are refused.
const (
	atConnection = "connection"
	atCall       = "call"
	atStream     = "stream"
)

// Len returns the number of denials.
func (l *DenyList) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Update adds denials, or replaces those with the same names, and removes the denials with the names in
// removed. Streams and connections of certificates that are denied from now on end at once.
func (l *DenyList) Update(added map[string]Denial, removed []string) {
	if l == nil || len(added)+len(removed) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range removed {
		delete(l.entries, name)
	}
	for name, denial := range added {
		l.entries[name] = denial
	}
	l.apply()
}

// Replace replaces all denials by the given ones, by name.
func (l *DenyList) Replace(all map[string]Denial) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = make(map[string]Denial, len(all))
	for name, denial := range all {
		l.entries[name] = denial
	}
	l.apply()
}

// apply makes the entries take effect. The caller holds mu.
func (l *DenyList) apply() {
	set := &denySet{identities: map[string]Denial{}, serials: map[string]Denial{}}
	for _, denial := range l.entries {
		switch before, there := set.identities[denial.Identity]; {
		case denial.Serial != "":
			set.serials[denial.Serial] = denial
		case !there || denial.IssuedBefore.After(before.IssuedBefore):
			set.identities[denial.Identity] = denial
		}
	}
	l.current.Store(set)
	for g := range l.guards {
		if err := set.check(g.cert); err != nil {
			delete(l.guards, g)
			go g.denied(err) // it may close connections, which takes the lock
		}
	}
}

// check returns an error if a certificate is denied.
func (s *denySet) check(cert certificate) error {
	for _, serial := range [...]string{cert.serial, cert.lineage} {
		if denial, ok := s.serials[serial]; ok {
			return &Denied{Path: cert.path, Denial: denial}
		}
	}
	if denial, ok := s.identities[cert.path]; ok && cert.issued <= denial.IssuedBefore.Unix() {
		return &Denied{Path: cert.path, Denial: denial}
	}
	return nil
}

// check returns an error, and counts the use at a place, if a certificate is denied.
func (l *DenyList) check(cert certificate, place string) error {
	if l == nil {
		return nil
	}
	err := l.current.Load().check(cert)
	if err != nil {
		l.used.WithLabelValues(place).Inc()
	}
	return err
}

// guard calls denied in a goroutine of its own once a certificate is denied, which may be at once.
// The function that it returns ends the wait.
func (l *DenyList) guard(cert certificate, place string, denied func(error)) (stop func()) {
	if l == nil {
		return func() {}
	}
	g := &guard{cert: cert, denied: func(err error) {
		l.used.WithLabelValues(place).Inc()
		denied(err)
	}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.current.Load().check(cert); err != nil {
		go g.denied(err)
		return func() {}
	}
	l.guards[g] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.guards, g)
	}
}

// Denied is the error of a certificate that was revoked.
type Denied struct {
	Path   string // of the certificate
	Denial Denial
}

// Error implements error. The text continues a sentence about the certificate.
func (e *Denied) Error() string {
	what := "was revoked with all that were issued to this identity until " + day(e.Denial.IssuedBefore)
	if e.Denial.Serial != "" {
		what = "was revoked by its serial number"
	}
	if e.Denial.Reason != "" {
		what += fmt.Sprintf(" (%s)", e.Denial.Reason)
	}
	return fmt.Sprintf("%s: portolan certs issue %s --force makes a new one", what, e.Path)
}

// DenyList returns the list of certificates that the process refuses. It returns nil if s is nil.
func (s *Source) DenyList() *DenyList {
	if s == nil {
		return nil
	}
	return s.denied
}

// CheckRevoked returns an error, which continues a sentence about the certificate, if the
// certificate of the client that made the call of ctx is denied.
func CheckRevoked(ctx context.Context) error {
	client, ok := callerOf(ctx)
	if !ok {
		return nil
	}
	// A set never changes, so its answer for a certificate does not either.
	set := client.denied.current.Load()
	if client.allowedBy.Load() == set {
		return nil
	}
	if err := client.denied.check(client.cert, atCall); err != nil { // its set is this one or a newer one
		return err
	}
	client.allowedBy.Store(set)
	return nil
}

// OnClientRevoked calls revoked like OnRevoked, for the client at the other end of a connection with
// MutualTLS.
func (s *Source) OnClientRevoked(state tls.ConnectionState, revoked func(error)) (stop func()) {
	id, _ := s.identify(state) //nolint:errcheck // a certificate without an identity is looked up by its serial number
	return s.denied.guard(certificateOf(state.PeerCertificates[0], id), atStream, revoked)
}

// CheckIssued returns an error if a token that was issued to an identity, given by its path, at some
// time is denied. A token has no serial number.
func (l *DenyList) CheckIssued(path string, issued time.Time) error {
	return l.check(certificate{path: path, issued: issued.Unix()}, atCall)
}

// OnIssuedDenied calls denied, in a goroutine of its own, with the error of CheckIssued as soon as
// CheckIssued returns one. stop ends the wait.
func (l *DenyList) OnIssuedDenied(path string, issued time.Time, denied func(error)) (stop func()) {
	return l.guard(certificate{path: path, issued: issued.Unix()}, atStream, denied)
}

// OnRevoked calls revoked with the error of CheckRevoked, in a goroutine of its own, once the
// certificate of the client that opened the stream of ctx is denied. The function that it returns
// ends the wait.
func OnRevoked(ctx context.Context, revoked func(error)) (stop func()) {
	client, ok := callerOf(ctx)
	if !ok {
		return func() {}
	}
	return client.denied.guard(client.cert, atStream, revoked)
}
