package dnssvc

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
)

// listenTLS listens for DNS over TLS.
func (d *Daemon) listenTLS(host app.Host) error {
	if len(d.cfg.ListenTLS) == 0 {
		return nil
	}
	settings, expires, err := d.certificate(host.Identity)
	if err != nil {
		return fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	for _, addr := range d.cfg.ListenTLS {
		if err := d.dns.ListenTLS(addr, settings); err != nil {
			return daemon.ListenError("listen-tls", err)
		}
	}
	host.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_dnssvc_tls_certificate_expiry_timestamp_seconds",
		Help: "When the certificate for DNS over TLS expires, in seconds since the epoch; absent without -listen-tls.",
	}, func() float64 { return float64(expires().Unix()) }))
	return nil
}

// certificate returns the TLS settings with the certificate for DNS clients, and when that expires.
// A certificate of its own comes first. Otherwise it is the daemon's, if that has a host name or an
// address: DNS clients do not know roles.
func (d *Daemon) certificate(own *identity.Source) (*tls.Config, func() time.Time, error) {
	if d.cfg.ListenTLSCert == "" {
		if own == nil { // another program than Main gave the daemon no identity
			return nil, nil, fmt.Errorf("listen-tls: there is no certificate: give listen-tls-cert and listen-tls-key")
		}
		settings, err := own.ServerTLS()
		return settings, own.Expires, err
	}
	var err error
	if d.public, err = identity.OpenPublic(identity.PublicOptions{
		Cert: d.cfg.ListenTLSCert, Key: d.cfg.ListenTLSKey, Flags: "listen-tls", Log: d.log,
	}); err != nil {
		return nil, nil, err
	}
	return d.public.ServerTLS(), d.public.Expires, nil
}

// keepCertificate takes new files of the certificate for DNS clients. The daemon's own certificate
// is kept up to date for all its servers at once, by its host.
func (d *Daemon) keepCertificate(ctx context.Context) error {
	if d.public == nil {
		return nil
	}
	return d.public.Run(ctx)
}
