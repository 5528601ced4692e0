package daemon

import (
	"errors"
	"fmt"
	"time"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/rpc"
)

// NewServer returns the gRPC server of a daemon on its host. If the host has an identity,
// authorizer decides which calls the server answers. Functions in change set further options.
func NewServer(host app.Host, authorizer rpc.Authorizer, change ...func(*rpc.ServerOptions)) *rpc.Server {
	options := rpc.ServerOptions{
		Log: host.Log, Metrics: host.Metrics, Health: host.Health, Identity: host.Identity, Authorizer: authorizer, Token: host.Token,
		Audit: auditOf(host),
	}
	for _, fn := range change {
		fn(&options)
	}
	options.Extra = append(options.Extra, host.Tracer.ServerOption())
	return rpc.NewServer(options)
}

// Streams holds the limits of the streams that a daemon serves, and of the connections that carry
// them. A configuration embeds it.
type Streams struct {
	MaxStreams            int           `flag:"max-streams" default:"20000" usage:"streams that may be open at a time"`
	MaxStreamsPerIdentity int           `flag:"max-streams-per-identity" default:"100" usage:"streams that one identity may have open at a time; one that several machines share, from each address"`
	SendTimeout           time.Duration `flag:"send-timeout" default:"20s" usage:"time that a message of a stream may wait for the client to read, before the stream is ended"`
	MaxConnectionAge      time.Duration `flag:"max-connection-age" default:"1h" usage:"time after which clients must connect again, with TLS; streams have a sixth of it to end"`
}

// Limit sets the limits in the options of a server.
func (s *Streams) Limit(options *rpc.ServerOptions) {
	options.MaxStreams, options.MaxStreamsPerIdentity, options.SendTimeout = s.MaxStreams, s.MaxStreamsPerIdentity, s.SendTimeout
	options.MaxConnectionAge = s.MaxConnectionAge
}

// Validate returns an error that lists all limits that are not positive.
func (s *Streams) Validate() error {
	var errs []error
	for _, limit := range []struct {
		name  string
		value int64
	}{{"max-streams", int64(s.MaxStreams)}, {"max-streams-per-identity", int64(s.MaxStreamsPerIdentity)}, {"send-timeout", int64(s.SendTimeout)}, {"max-connection-age", int64(s.MaxConnectionAge)}} {
		if limit.value <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be more than nothing", limit.name))
		}
	}
	return errors.Join(errs...)
}
