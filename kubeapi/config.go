package kubeapi

import (
	"errors"
	"fmt"
	"time"

	"portolan.dev/services/daemon"
)

// Config is the configuration of the daemon.
type Config struct {
	daemon.Common `default:"addr=127.0.0.1:7405 http-addr=127.0.0.1:7505"`

	Registry string `flag:"registry" default:"127.0.0.1:7400" usage:"host:port of the registry's gRPC API; several, comma separated"`

	History               int           `flag:"history" default:"10000" usage:"changes of each kind that are kept for watches; a client that is further behind lists again"`
	MaxRequests           int           `flag:"max-requests" default:"400" usage:"requests, besides watches, that are served at a time"`
	MaxWatches            int           `flag:"max-watches" default:"20000" usage:"watches that may be open at a time"`
	MaxWatchesPerIdentity int           `flag:"max-watches-per-identity" default:"5000" usage:"watches that one identity may have open at a time"`
	SendTimeout           time.Duration `flag:"send-timeout" default:"20s" usage:"time that a part of an answer may wait for the client to read, before the request is ended"`
}

// Validate returns all errors of the configuration, joined.
func (c *Config) Validate() error {
	errs := []error{c.Common.Validate()}
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"history", int64(c.History)}, {"max-requests", int64(c.MaxRequests)}, {"max-watches", int64(c.MaxWatches)},
		{"max-watches-per-identity", int64(c.MaxWatchesPerIdentity)}, {"send-timeout", int64(c.SendTimeout)},
	} {
		if limit.value <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be more than nothing", limit.name))
		}
	}
	return errors.Join(errs...)
}
