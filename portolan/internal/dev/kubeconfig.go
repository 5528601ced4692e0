package dev

import (
	"net/url"

	"portolan.dev/portolan/internal/kubeconfig"
	"portolan.dev/services/kit/atomicfile"
	"portolan.dev/services/kit/token"
)

// kubeconfig returns the file that tells clients of Kubernetes the address of kubeapi, and the token.
func (o *Options) kubeconfig() string { return o.dir("kubeconfig") }

// writeKubeconfig writes the file of an installation with a new token. Only this user can read it, and
// others cannot write to the folder. The token is in the server's URL, because client-go ignores the users
// of a kubeconfig whose server has no TLS.
func writeKubeconfig(options *Options, secret *token.Token) error {
	server := url.URL{Scheme: "http", User: secret.Userinfo(), Host: options.addr(kubeapiPort)}
	config := kubeconfig.Config{Server: server.String(), User: "dev"}
	text, err := config.Encode()
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(options.kubeconfig(), text, 0o600)
}
