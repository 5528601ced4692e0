package renewal

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
)

// Config is the configuration of an Issuer.
type Config struct {
	Cert, Key string        // files of the issuer's certificate and key, PEM; both empty: no issuer
	Lifetime  time.Duration // of the certificates
	PerHour   int           // renewals of one identity in an hour
	Log       *slog.Logger
	Metrics   prometheus.Registerer
}

// Issuer renews certificates. It is safe for concurrent use.
type Issuer struct {
	config    Config
	authority *authority.Authority // nil if none is configured
	renewals  *prometheus.CounterVec
	now       func() time.Time

	mu   sync.Mutex
	rate map[identity.ID]*rate.Limiter
}

// Outcomes of requests, as portolan_registry_certificate_renewals_total has them.
const (
	issued    = "issued"
	noIssuer  = "no_issuer"
	throttled = "throttled"
	refused   = "refused"
)

// Open reads the files of the issuer. Without files it returns an Issuer that refuses all requests.
func Open(c Config) (*Issuer, error) {
	i := &Issuer{config: c, now: time.Now, rate: map[identity.ID]*rate.Limiter{}, renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_registry_certificate_renewals_total",
		Help: "Requests for a renewed certificate, by outcome: issued, no_issuer, throttled or refused.",
	}, []string{"outcome"})}
	for _, outcome := range []string{issued, noIssuer, throttled, refused} {
		i.renewals.WithLabelValues(outcome)
	}
	c.Metrics.MustRegister(i.renewals, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_registry_issuer_expiry_timestamp_seconds",
		Help: "When the certificate of the issuer of renewals expires, in seconds since the epoch; infinite without -issuer-cert.",
	}, i.expiry))
	if c.Cert == "" {
		return i, nil
	}
	var pair authority.Pair
	var certErr, keyErr error
	pair.Cert, certErr = os.ReadFile(c.Cert)
	pair.Key, keyErr = os.ReadFile(c.Key)
	if certErr != nil || keyErr != nil {
		return nil, fmt.Errorf("issuer-cert, issuer-key: %w", errors.Join(certErr, keyErr))
	}
	var err error
	if i.authority, err = authority.Load(pair); err != nil {
		return nil, fmt.Errorf("issuer-cert %s: %w", c.Cert, err)
	}
	if !i.authority.IsIssuer() {
		return nil, fmt.Errorf("issuer-cert %s: is not an issuer's; an authority's key does not belong on a registry's machine (portolan certs issuer makes an issuer)", c.Cert)
	}
	return i, nil
}

// expiry returns when the issuer expires, in seconds since the epoch.
func (i *Issuer) expiry() float64 {
	if i.authority == nil {
		return math.Inf(1)
	}
	return float64(i.authority.Expires().Unix())
}

// maxRequest is the largest size of a request for a certificate, in bytes. One with an ECDSA key and
// no names has about 200.
const maxRequest = 4096

// Renew returns a certificate, in PEM, with the identity and the hosts of a valid certificate, and
// the public key of a PKCS #10 request in DER.
func (i *Issuer) Renew(presented *x509.Certificate, request []byte) ([]byte, error) {
	id, err := identity.FromCertificate(presented)
	if err != nil {
		return nil, err
	}
	cert, outcome, err := i.renew(id, presented, request)
	i.renewals.WithLabelValues(outcome).Inc()
	if err != nil {
		i.config.Log.Warn("certificate not renewed", "id", id, "serial", identity.SerialOf(presented), "err", err)
		return nil, err
	}
	i.config.Log.Info("certificate renewed", "id", id, "serial", identity.SerialOf(presented), "lineage", identity.Lineage(presented))
	return cert, nil
}

func (i *Issuer) renew(id identity.ID, presented *x509.Certificate, request []byte) (cert []byte, outcome string, err error) {
	if i.authority == nil {
		return nil, noIssuer, apierr.FailedPrecondition("the registry has no issuer, so it renews no certificates: " +
			"portolan certs issuer makes one, and issuer-cert and issuer-key give it to the registry")
	}
	if now := i.now(); !now.Before(presented.NotAfter) {
		return nil, refused, apierr.Unauthenticated("the presented certificate has expired: portolan certs issue --force makes a new one")
	}
	if wait := i.wait(id); wait > 0 {
		return nil, throttled, apierr.Throttled("certificate-renewals", fmt.Sprintf(
			"%s renews its certificate too often: the registry's certificate-renewals allows %d in an hour", id, i.config.PerHour), wait)
	}
	key, violation := publicKey(request)
	if violation != "" {
		return nil, refused, apierr.Invalid("RenewRequest", "", apierr.Violations{{
			Field: "certificate_request", Reason: apierr.ReasonInvalid, Message: violation,
		}})
	}
	var hosts []string
	hosts = append(hosts, presented.DNSNames...)
	for _, ip := range presented.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	cert, err = i.authority.IssueFor(authority.Request{
		ID: id, Hosts: hosts, Lifetime: i.config.Lifetime, Lineage: identity.Lineage(presented),
	}, key)
	if err != nil {
		return nil, refused, apierr.FailedPrecondition(err.Error())
	}
	return cert, issued, nil
}

// publicKey returns the public key of a request if authorities accept such keys and the request is signed
// with its private key. Otherwise it returns the violation.
func publicKey(der []byte) (key any, violation string) {
	if len(der) > maxRequest {
		return nil, fmt.Sprintf("has %d bytes, and may have %d", len(der), maxRequest)
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, "is no PKCS #10 request in DER"
	}
	if public, ok := request.PublicKey.(*ecdsa.PublicKey); !ok || public.Curve != elliptic.P256() {
		return nil, "its key must be ECDSA P-256"
	}
	if err := request.CheckSignature(); err != nil {
		return nil, "is not signed with the key that it has"
	}
	return request.PublicKey, ""
}

// maxIdle is the number of identities above which those that have not renewed for an hour are
// forgotten.
const maxIdle = 4096

// wait counts a renewal of an identity. It returns the time until the identity may try again, if it
// has used up its renewals.
func (i *Issuer) wait(id identity.ID) time.Duration {
	now := i.now()
	i.mu.Lock()
	defer i.mu.Unlock()
	limiter := i.rate[id]
	if limiter == nil {
		if len(i.rate) >= maxIdle {
			for old, l := range i.rate {
				if l.TokensAt(now) >= float64(l.Burst()) {
					delete(i.rate, old)
				}
			}
		}
		limiter = rate.NewLimiter(rate.Every(time.Hour/time.Duration(i.config.PerHour)), i.config.PerHour)
		i.rate[id] = limiter
	}
	reservation := limiter.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}
