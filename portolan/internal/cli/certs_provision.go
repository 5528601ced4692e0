package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"portolan.dev/portolan/internal/certs"
)

func newCertsProvision(flags *connection) *cobra.Command {
	f := &certsFlags{}
	file := ""
	command := &cobra.Command{
		Use:   "provision -f FILE",
		Short: "Bring the certificates of a list, and their copies, up to date",
		Long: `provision reads a list of certificates with the folder and the owner of each. It makes missing certificates and, if it is missing, the authority;
renews certificates that expire soon; copies each certificate with its key to its folder; and writes the configuration of NATS. Run it again at any
time: it changes only what is not as in the list. The compose stack of the repository uses it.`,
		Example: `  portolan certs provision -f certs.yaml --certs /var/lib/portolan/certs

  # certs.yaml
  trustDomain: portolan
  certificates:
  - {who: registry, folder: /etc/portolan/tls}
  - {who: nats, hosts: [nats-1.example.com], folder: /etc/nats/tls}
  nats: {file: /etc/nats/portolan.conf, path: /etc/nats/tls}`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			list, err := readProvision(file, command.InOrStdin())
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			made, err := list.Provision(folderOf(flags))
			if err != nil {
				return err
			}
			return f.print(command.OutOrStdout(), made)
		},
	}
	registerOutput(command, &f.output, "table", "json")
	command.Flags().StringVarP(&file, "filename", "f", "", "list of certificates, YAML; - reads standard input")
	_ = command.MarkFlagRequired("filename")
	return command
}

func readProvision(file string, in io.Reader) (*certs.Provision, error) {
	if file == "-" {
		return certs.ReadProvision(in)
	}
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	return certs.ReadProvision(opened)
}
