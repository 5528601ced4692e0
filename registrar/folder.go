package registrar

import (
	"cmp"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	registrarv1 "portolan.dev/api/registrar/v1"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"

	"portolan.dev/registrar/dir"
)

// folder applies the manifests of the configured folder. Its connection to the registry has the certificate
// of an operator and is used for the manifests only.
type folder struct {
	*dir.Runner
	identity *identity.Source // nil: no TLS
	conn     *grpc.ClientConn
}

// openFolder returns the configured folder. It calls attempted after each attempt to apply the folder.
func openFolder(cfg *Config, network rpc.Network, log *slog.Logger, metrics prometheus.Registerer, attempted func(error)) (*folder, error) {
	f := &folder{}
	own := daemon.TLS{TLSCert: cfg.DirCert, TLSKey: cfg.DirKey, TLSCA: cmp.Or(cfg.DirCA, cfg.TLSCA), TrustDomain: cfg.TrustDomain}
	var err error
	if f.identity, err = own.Identity(identity.Options{Role: identity.Operator, Log: log.With("certificate", "dir-cert")}); err != nil {
		return nil, fmt.Errorf("%w: dir-cert: %w", config.ErrInvalid, err)
	}
	if f.conn, err = network.Dial(cfg.Registry, f.identity.DialOption(identity.Registry)); err != nil {
		return nil, err
	}
	f.Runner = dir.New(dir.Options{
		Path: cfg.Dir, Selector: cfg.DirSelector, Namespace: cfg.DirNamespace, Everywhere: f.identity == nil || f.identity.ID().Namespace == "",
		Interval: cfg.DirInterval, Registry: f.conn, Log: log, Metrics: metrics, Attempted: attempted,
	})
	return f, nil
}

// tasks returns the tasks of the folder, which run as long as the daemon.
func (f *folder) tasks() []app.Task {
	if f == nil {
		return nil
	}
	tasks := []app.Task{{Name: "dir", Run: f.Run}}
	if f.identity != nil {
		tasks = append(tasks, app.Task{Name: "dir-cert", Run: f.identity.Run})
	}
	return tasks
}

func (f *folder) close() error {
	if f == nil || f.conn == nil {
		return nil
	}
	return f.conn.Close()
}

// status returns the state of the folder for the API, or nil if there is none.
func (f *folder) status() *registrarv1.Folder {
	if f == nil {
		return nil
	}
	s := f.Status()
	out := &registrarv1.Folder{
		Path: s.Path, Selector: s.Selector, LastApplied: stamp(s.Attempted), Files: uint32(s.Files), Objects: uint32(s.Objects), // #nosec G115 -- the files are in memory
	}
	for _, p := range s.Problems {
		out.Problems = append(out.Problems, &registrarv1.FolderProblem{File: p.File, Object: p.Object, Message: p.Error()})
	}
	return out
}
