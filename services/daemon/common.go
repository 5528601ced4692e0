package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"

	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/obs"
)

// Common are the settings that every daemon has. Embed it, and give the
// addresses their defaults there:
//
//	daemon.Common `default:"addr=127.0.0.1:7400 http-addr=127.0.0.1:7500"`
//
// A configuration with a Validate of its own calls that of Common.
type Common struct {
	Addr          string     `flag:"addr" default:"127.0.0.1:0" usage:"host:port of the gRPC API"`
	HTTPAddr      string     `flag:"http-addr" default:"127.0.0.1:0" usage:"host:port of metrics, health checks and pprof"`
	LogLevel      slog.Level `flag:"log-level" default:"info" usage:"debug, info, warn or error"`
	LogFormat     obs.Format `flag:"log-format" default:"auto" usage:"json, text, or auto: text on a terminal, otherwise json"`
	TraceEndpoint string     `flag:"trace-endpoint" usage:"host:port of an OpenTelemetry collector (OTLP over gRPC); none: what OTEL_EXPORTER_OTLP_ENDPOINT says, or no traces"`
	NATSURL       string     `flag:"nats-url" default:"nats://127.0.0.1:4222" usage:"NATS servers, comma separated"`
	NATSPrefix    string     `flag:"nats-prefix" default:"portolan" usage:"first word of all NATS subjects"`
	TLSCert       string     `flag:"tls-cert" usage:"file of the certificate (PEM); with one, all connections are mutual TLS, that to NATS too"`
	TLSKey        string     `flag:"tls-key" usage:"file of the certificate's private key (PEM)"`
	TLSCA         string     `flag:"tls-ca" usage:"file of the authorities whose certificates are believed (PEM)"`
	TrustDomain   string     `flag:"trust-domain" usage:"trust domain that everybody must be of; empty: that of the certificate"`
	Insecure      bool       `flag:"insecure" default:"false" usage:"allow an address that other machines reach, though there is no TLS"`
}

// CommonConfig gives Main the settings of any configuration that embeds Common.
func (c *Common) CommonConfig() *Common { return c }

// Validate says what is wrong with the settings, all of it.
func (c *Common) Validate() error {
	var errs []error
	var given, missing []string
	for _, one := range []struct{ name, value string }{{"tls-cert", c.TLSCert}, {"tls-key", c.TLSKey}, {"tls-ca", c.TLSCA}} {
		if one.value == "" {
			missing = append(missing, one.name)
		} else {
			given = append(given, one.name)
		}
	}
	switch {
	case len(given) > 0 && len(missing) > 0:
		errs = append(errs, fmt.Errorf("%s: given without %s; TLS needs all three", strings.Join(given, ", "), strings.Join(missing, " and ")))
	case len(given) == 0 && !c.Insecure && !local(c.Addr):
		errs = append(errs, fmt.Errorf("addr: other machines reach %s, and without TLS they may do everything: give tls-cert, tls-key and tls-ca "+
			"(portolan certs init makes them), or listen on 127.0.0.1, or accept it by insecure", c.Addr))
	}
	return errors.Join(errs...)
}

// local says whether only programs of this machine reach an address. Of a name
// other than localhost it cannot be told.
func local(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "localhost" {
		return true // listening says better what is wrong with it
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// identity opens the certificate of a daemon; nil where there is none.
func (c *Common) identity(role identity.Role, options identity.Options) (*identity.Source, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	options.Role = role
	options.Files = identity.Files{Cert: c.TLSCert, Key: c.TLSKey, CA: c.TLSCA, TrustDomain: c.TrustDomain}
	return identity.Open(options)
}
