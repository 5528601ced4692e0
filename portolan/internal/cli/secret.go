package cli

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

func newSecret(flags *connection) *cobra.Command {
	command := &cobra.Command{
		Use:   "secret",
		Short: "Store certificates for the load balancers of the class portolan.dev/edge",
		Long: `A Secret of the type kubernetes.io/tls has a certificate and its key. An annotation of a service names it, and the edges that serve the service take
it. Only operators and edges read Secrets.`,
		Example: `  portolan secret tls web --cert web.crt --key web.key
  portolan get secrets -o wide
  portolan describe secret web`,
	}
	command.AddCommand(newSecretTLS(flags))
	return command
}

// secretTLS are the flags of secret tls.
type secretTLS struct {
	namespaceFlags
	cert, key, ca string
	dryRun        bool
}

func newSecretTLS(flags *connection) *cobra.Command {
	f := &secretTLS{}
	command := &cobra.Command{
		Use:   "tls NAME --cert FILE --key FILE",
		Short: "Create or replace a certificate with its key",
		Long: `tls stores a certificate, which may be followed by intermediate ones, with its key. Use it again with new files to renew the certificate: edges
take it within a second, and connections go on.`,
		Example: `  portolan secret tls web --cert web.crt --key web.key
  portolan secret tls backends -n shop --cert client.crt --key client.key --ca backends-ca.crt`,
		Args:              arguments(cobra.ExactArgs(1), "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: flags.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
			secret, err := f.secret(args[0])
			if err != nil {
				return err
			}
			run := newApplyRun(newBulkOperation(command, 1, "applied"), registry, f.dryRun)
			run.Apply(command.Context(), []object.Object{secret})
			return run.result()
		}),
	}
	f.register(command, false)
	command.Flags().StringVar(&f.cert, "cert", "", "file of the certificate, PEM")
	command.Flags().StringVar(&f.key, "key", "", "file of its key, PEM")
	command.Flags().StringVar(&f.ca, "ca", "", "file with certificates of authorities, PEM: edges check backends against them if a service names this Secret for that")
	command.Flags().BoolVar(&f.dryRun, "dry-run", false, "check everything, change nothing")
	_ = errors.Join(command.MarkFlagRequired("cert"), command.MarkFlagRequired("key")) // fails for an unknown flag only
	return command
}

// secret reads the files.
func (f *secretTLS) secret(name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{
		Metadata: &corev1.ObjectMeta{Namespace: f.namespace, Name: name}, Type: spec.SecretTypeTLS, Data: map[string][]byte{},
	}
	for data, file := range map[string]string{spec.SecretCert: f.cert, spec.SecretKey: f.key, spec.SecretCA: f.ca} {
		if file == "" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		secret.Data[data] = text
	}
	return secret, nil
}
