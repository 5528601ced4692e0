package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/internal/kubeconfig"
	"portolan.dev/services/kit/atomicfile"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/spec"
)

// kubeconfigFlags are the flags of kubeconfig.
type kubeconfigFlags struct {
	tokenFlags
	name, kubeapi, file string
	certificate, force  bool
}

func newKubeconfig(flags *connection) *cobra.Command {
	f := &kubeconfigFlags{}
	command := &cobra.Command{
		Use:   "kubeconfig --role ROLE | --certificate",
		Short: "Write a kubeconfig, with which kubectl uses this installation",
		Long: `kubeconfig makes a token of a role and writes a kubeconfig with it, with the address of kubeapi and with the authority by which kubectl knows it. Whoever has
the file has the role, until the token expires or "portolan delete token NAME" revokes it.

With --certificate the file names your own certificate and its key, by their paths, instead of a token. It is good as long as these are renewed there.

The certificate of kubeapi must name the host of --kubeapi: portolan certs issue kubeapi --host HOST.`,
		Example: `  portolan kubeconfig --role viewer --file viewer.kubeconfig
  portolan kubeconfig --role operator --namespace shop --ttl 90d --kubeapi https://k8s.example.com:7405 --file shop.kubeconfig
  portolan kubeconfig --certificate > ~/.kube/portolan
  kubectl --kubeconfig viewer.kubeconfig get services`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command, flags) },
	}
	f.register(command)
	set := command.Flags()
	set.StringVar(&f.name, "name", "", "name of the token (default: its role and a few random letters)")
	set.StringVar(&f.kubeapi, "kubeapi", "", "URL or HOST:PORT of kubeapi (default: port "+strconv.Itoa(kubeapiPort)+" of the registry's host)")
	set.StringVarP(&f.file, "file", "f", "-", "file to write, which only you can read; -: the standard output")
	set.BoolVar(&f.certificate, "certificate", false, "use the certificate of this command instead of a token")
	set.BoolVar(&f.force, "force", false, "replace the file if it exists")
	return command
}

// run writes the file. A token is made when nothing is left to fail but the registry and the disk.
func (f *kubeconfigFlags) run(command *cobra.Command, flags *connection) error {
	config, err := f.config(command, flags)
	if err != nil {
		return err
	}
	out, err := openPrivate(f.file, f.force, command.OutOrStdout())
	if err != nil {
		return err
	}
	defer out.discard()
	if !f.certificate {
		if err := f.addToken(command, flags, config); err != nil {
			return err
		}
	}
	text, err := config.Encode()
	if err != nil {
		return err
	}
	return out.write(text)
}

// config returns the kubeconfig without a token.
func (f *kubeconfigFlags) config(command *cobra.Command, flags *connection) (*kubeconfig.Config, error) {
	source, err := flags.identity()
	if err != nil {
		return nil, err
	}
	if source == nil {
		return nil, errors.New("without certificates there are no roles: --certs names a folder of certificates; portolan dev writes a kubeconfig of its own into its data directory")
	}
	files, err := flags.tlsFiles()
	if err != nil {
		return nil, err
	}
	config := &kubeconfig.Config{Namespace: f.namespace}
	if config.CA, err = os.ReadFile(files.CA); err != nil {
		return nil, err
	}
	if config.Server, err = kubeapiURL(flags.daemonAddress(f.kubeapi, kubeapiPort)); err != nil {
		return nil, err
	}
	if !f.certificate {
		config.User, err = f.identity()
		return config, err
	}
	if command.Flags().Changed("role") || f.ttl != 0 || f.name != "" {
		return nil, usageError{errors.New("--certificate makes no token, so it takes no --role, --ttl and --name")}
	}
	config.User = source.ID().Path()
	return config, absolute(config, files)
}

// absolute sets the files of the certificate, which kubectl may read from another folder.
func absolute(config *kubeconfig.Config, files identity.Files) (err error) {
	if config.ClientCert, err = filepath.Abs(files.Cert); err != nil {
		return err
	}
	config.ClientKey, err = filepath.Abs(files.Key)
	return err
}

// addToken makes the token.
func (f *kubeconfigFlags) addToken(command *cobra.Command, flags *connection, config *kubeconfig.Config) error {
	conn, err := flags.dial(flags.server, identity.Registry)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	meta := &corev1.ObjectMeta{Name: f.name}
	if f.name == "" {
		meta.GenerateName = spec.IdentityPrefix(config.User)
	}
	made, err := f.make(command.Context(), conn, meta)
	if err != nil {
		return err
	}
	config.Token = made.text
	_, _ = fmt.Fprintln(command.ErrOrStderr(), made.about())
	return nil
}

// kubeapiURL returns the URL of kubeapi at a URL or address. One without TLS is refused: a token would cross
// the network in clear text, and kubeapi looks at none there.
func kubeapiURL(address string) (string, error) {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return "https://" + address, nil
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return "", usageError{fmt.Errorf("--kubeapi %q: want HOST:PORT or https://HOST:PORT", address)}
	}
	return address, nil
}

// privateFile is a file that only this user can read. It appears under its name only once it is complete.
type privateFile struct {
	path  string
	force bool
	out   io.Writer        // instead of a file; nil: a file
	file  *atomicfile.File // nil if out is set
}

// openPrivate opens a file to be written; "-" is out. Without force a file that exists is an error.
func openPrivate(path string, force bool, out io.Writer) (*privateFile, error) {
	if path == "-" {
		return &privateFile{out: out}, nil
	}
	if _, err := os.Lstat(path); err == nil && !force {
		return nil, fmt.Errorf("%s exists: --force replaces it", path)
	}
	file, err := atomicfile.Create(path, 0o600)
	return &privateFile{path: path, force: force, file: file}, err
}

// write writes the contents.
func (p *privateFile) write(text []byte) error {
	if p.out != nil {
		_, err := p.out.Write(text)
		return err
	}
	if _, err := p.file.Write(text); err != nil {
		return err
	}
	if p.force {
		return p.file.Commit()
	}
	err := p.file.CommitNew()
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: --force replaces it", p.path)
	}
	return err
}

// discard removes the temporary file, if there is one.
func (p *privateFile) discard() {
	if p.file != nil {
		p.file.Discard()
	}
}
