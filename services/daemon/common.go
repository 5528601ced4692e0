package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

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
	TLS
	Insecure bool `flag:"insecure" default:"false" usage:"allow an address that other machines reach, though there is no TLS"`
}

// CommonConfig gives Main the settings of any configuration that embeds Common.
func (c *Common) CommonConfig() *Common { return c }

// Validate says what is wrong with the settings, all of it.
func (c *Common) Validate() error {
	err := c.TLS.Validate()
	if c.TLSCert == "" && !c.Insecure && !local(c.Addr) {
		err = errors.Join(err, fmt.Errorf("addr: other machines reach %s, and without TLS they may do everything: give tls-cert, tls-key and tls-ca "+
			"(portolan certs init makes them), or listen on 127.0.0.1, or accept it by insecure", c.Addr))
	}
	return err
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
