package dev

import (
	"errors"
	"io/fs"
	"net/url"
	"os"

	"portolan.dev/portolan/internal/kubeconfig"
	"portolan.dev/services/kit/token"
)

// kubeconfig returns the file that tells clients of Kubernetes the address of kubeapi, and the token.
func (o *Options) kubeconfig() string { return o.dir("kubeconfig") }

// writeKubeconfig writes the file of an installation with a new token. Only this user can read it, and
// others cannot write to the folder. The token is in the server's URL, because client-go ignores the users
// of a kubeconfig if the server has no TLS.
func writeKubeconfig(options *Options, secret *token.Token) error {
	server := url.URL{Scheme: "http", User: secret.Userinfo(), Host: options.addr(kubeapiPort)}
	config := kubeconfig.Config{Server: server.String(), User: "dev"}
	text, err := config.Encode()
	if err != nil {
		return err
	}
	// A file that was left by a process that was killed would keep its mode.
	if err := os.Remove(options.kubeconfig()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(options.kubeconfig(), text, 0o600)
}
