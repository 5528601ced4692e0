package cli

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"portolan.dev/portolan/internal/certs"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
)

func newCertsIssuer(flags *connection) *cobra.Command {
	f := &certsFlags{}
	command := &cobra.Command{
		Use:   "issuer",
		Short: "Make the issuer of renewals in a folder of an earlier release",
		Long: `issuer makes issuer.crt and issuer.key, which registries need to renew certificates (-issuer-cert, -issuer-key), and adds the issuer to
the trusted authorities in ca.crt. Copy ca.crt to all machines first, and then the issuer to the registries. An issuer that is there stays.`,
		Example: "  portolan certs issuer --certs /root/certs",
		Args:    arguments(cobra.NoArgs, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			folder, err := certs.Open(folderOf(flags))
			if err != nil {
				return err
			}
			issuer, err := folder.MakeIssuer()
			if err != nil {
				return err
			}
			return f.print(command.OutOrStdout(), []certs.Certificate{issuer})
		},
	}
	registerOutput(command, &f.output, "table", "json")
	return command
}

// renewFolder renews certificates of the folder of the command: with the authority's key if it is
// there, or else at the registry.
func renewFolder(ctx context.Context, flags *connection, names []string, within time.Duration, force bool) ([]certs.Certificate, error) {
	dir := folderOf(flags)
	if _, err := os.Stat(dir); err != nil || certs.HasAuthority(dir) {
		folder, err := certs.Open(dir) // its error says how to make a folder
		if err != nil {
			return nil, err
		}
		return folder.Renew(names, within, force)
	}
	return certs.OpenCopies(dir).RenewBy(names, within, force, func(files identity.Files) (authority.Pair, error) {
		files.TrustDomain = flags.files.TrustDomain
		source, err := identity.Open(identity.Options{Files: files, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return authority.Pair{}, err
		}
		conn, err := rpc.TCP().Dial(flags.server, source.DialOption(identity.Registry))
		if err != nil {
			return authority.Pair{}, err
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(ctx, flags.timeout)
		defer cancel()
		if err := source.Renew(ctx, daemon.RenewBy(conn)); err != nil {
			return authority.Pair{}, err
		}
		cert, key := source.Renewed()
		return authority.Pair{Cert: cert, Key: key}, nil
	})
}

// renewOwn renews the certificate of the command line itself if it has a third of its life left and
// its folder has the key of the authority. It returns no error, because the command reports an unusable
// certificate when it opens it.
func renewOwn(dir string, files identity.Files) {
	cert, err := certs.ReadCertificate(files.Cert)
	if err != nil || !certs.HasAuthority(dir) || !identity.Due(cert, time.Now()) {
		return
	}
	id, err := identity.FromCertificate(cert)
	if err != nil || !slices.Contains([]identity.Role{identity.Operator, identity.Viewer}, id.Role) {
		return
	}
	if folder, err := certs.Open(dir); err == nil {
		_, _ = folder.Renew([]string{id.Path()}, 0, false)
	}
}

// keepRenewed keeps the certificate of a command that runs for long renewed until the caller calls
// stop, if a registry renews it. It stores it in the files that it came from.
func (c *connection) keepRenewed(ctx context.Context, registry grpc.ClientConnInterface) (stop func(), err error) {
	source, err := c.identity()
	if err != nil || source == nil || !identity.Renews(source.ID().Role) {
		return func() {}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() { source.KeepRenewed(ctx, daemon.RenewBy(registry)) })
	return func() { cancel(); renewal.Wait() }, nil
}
