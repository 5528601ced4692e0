package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"
)

// SignFunc asks a registry for a certificate of our identity. request is a PKCS #10 request in DER
// with the public key. The answer is the certificate, followed by intermediate ones if there are
// any, in PEM.
type SignFunc func(ctx context.Context, request []byte) (chain []byte, err error)

// Outcomes of renewals, as portolan_tls_renewals_total has them.
const (
	outcomeRenewed = "renewed"
	outcomeFailed  = "failed"
	outcomeUnsaved = "unsaved"
)

const (
	// renewalTimeout is the time that one attempt may take.
	renewalTimeout = 20 * time.Second
	// firstPause and longestPause bound the time between two attempts after a failure, which doubles
	// each time. A twentieth of the lifetime bounds it too.
	firstPause   = time.Second
	longestPause = 10 * time.Minute
)

// KeepRenewed renews the certificate after about two thirds of its life, with a new key, until ctx
// is done. It tries again after failures, with growing pauses. New connections use the renewed
// certificate; existing ones are kept.
func (s *Source) KeepRenewed(ctx context.Context, sign SignFunc) {
	var due time.Time
	var leaf *x509.Certificate
	pause := firstPause
	for {
		if now := s.current.Load().leaf; now != leaf {
			leaf, due, pause = now, renewalTime(now), firstPause
		}
		if time.Now().Before(due) && !s.unsaved {
			if !sleep(ctx, min(time.Until(due), s.every)) { // other files may be taken meanwhile
				return
			}
			continue
		}
		if err := s.renewOrSave(ctx, sign, due); err == nil {
			pause = firstPause
			continue
		} else if ctx.Err() != nil {
			return
		} else {
			s.opts.Log.Warn("certificate not renewed", "err", err, "expires", leaf.NotAfter, "again_in", pause)
		}
		if !sleep(ctx, time.Duration(float64(pause)*(0.8+0.4*mathrand.Float64()))) { // #nosec G404 -- a pause is no secret
			return
		}
		pause = min(2*pause, longestPause, max(firstPause, leaf.NotAfter.Sub(leaf.NotBefore)/20))
	}
}

// renewOrSave makes one attempt to renew the certificate and counts the outcome. Before the renewal is
// due, it makes an attempt to store the current certificate, if that has failed before.
func (s *Source) renewOrSave(ctx context.Context, sign SignFunc, due time.Time) error {
	if time.Now().Before(due) {
		return s.save()
	}
	ctx, cancel := context.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	if err := s.Renew(ctx, sign); err != nil {
		s.metrics.renewals.WithLabelValues(outcomeFailed).Inc()
		return err
	}
	s.metrics.renewals.WithLabelValues(outcomeRenewed).Inc()
	return s.save()
}

// Renew makes a key, gets a certificate for it by sign and uses both from then on. It does not store
// them.
func (s *Source) Renew(ctx context.Context, sign SignFunc) error {
	key, request, err := newRequest()
	if err != nil {
		return err
	}
	chain, err := sign(ctx, request)
	if err != nil {
		return err
	}
	c, err := s.opts.Files.read()
	if err != nil {
		return err
	}
	c.renewed = slices.Concat(chain, key)
	m, err := s.parseRenewed(c, time.Now())
	if err != nil {
		return fmt.Errorf("the certificate that the registry gave cannot be used: %w", err)
	}
	if have := s.ID(); m.id != have {
		return fmt.Errorf("the registry gave a certificate of %s, and we are %s", m.id, have)
	}
	if old := s.current.Load().leaf; m.leaf.NotBefore.Before(old.NotBefore) {
		return fmt.Errorf("the registry gave a certificate that is valid from %s on, earlier than the one in use: set the clocks right", day(m.leaf.NotBefore))
	}
	s.renewed.Store(&c.renewed)
	s.unsaved = true
	s.reload()
	return nil
}

// Renewed returns the certificate that Renew got and its key, in PEM.
func (s *Source) Renewed() (cert, key []byte) {
	for rest := *s.renewed.Load(); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return cert, key
		}
		if block.Type == "CERTIFICATE" {
			cert = append(cert, pem.EncodeToMemory(block)...)
		} else {
			key = append(key, pem.EncodeToMemory(block)...)
		}
	}
}

// save stores the renewed certificate.
func (s *Source) save() error {
	if s.opts.Store != nil {
		cert, key := s.Renewed()
		if err := s.opts.Store.Save(s.ID(), cert, key); err != nil {
			s.metrics.renewals.WithLabelValues(outcomeUnsaved).Inc()
			return fmt.Errorf("the renewed certificate is in use, and lost after a restart, because it cannot be stored: %w", err)
		}
	}
	s.unsaved = false
	return nil
}

// newRequest makes a key, in PEM, and a request for its certificate, in DER. The request has no name,
// because the registry takes the name from the certificate that we present to it.
func newRequest() (key, request []byte, err error) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return nil, nil, err
	}
	request, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, secret)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), request, err
}

// renewalTime returns the time at which a certificate is renewed: after two thirds of its life, and
// up to a twentieth of it earlier or later, so that machines that were set up together do not all
// ask at once.
func renewalTime(leaf *x509.Certificate) time.Time {
	life := float64(leaf.NotAfter.Sub(leaf.NotBefore))
	return leaf.NotBefore.Add(time.Duration(life * (2./3 + (mathrand.Float64()-0.5)/10))) // #nosec G404 -- a pause is no secret
}

// Due reports whether a third or less of a certificate's life is left.
func Due(leaf *x509.Certificate, now time.Time) bool {
	return now.After(leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3))
}

// sleep waits. It reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
