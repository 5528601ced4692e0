package dev

import (
	"errors"
	"fmt"
	"net/url"
	"os"

	"portolan.dev/services/kit/token"
)

// kubeconfig returns the file that tells clients of Kubernetes the address of kubeapi, and the token.
func (o *Options) kubeconfig() string { return o.dir("kubeconfig") }

// writeKubeconfig writes the file of an installation with a new token. Only this user can read it. The
// token is in the server's URL, because client-go ignores the users of a kubeconfig whose server has no
// TLS.
func writeKubeconfig(options *Options, secret *token.Token) error {
	server := url.URL{Scheme: "http", User: secret.Userinfo(), Host: options.addr(kubeapiPort)}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: portolan-dev
clusters: [{name: portolan-dev, cluster: {server: %q}}]
contexts: [{name: portolan-dev, context: {cluster: portolan-dev, user: ""}}]
`, server.String())
	file, err := os.CreateTemp(options.DataDir, ".kubeconfig-") // has mode 0600
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	if err := os.Rename(file.Name(), options.kubeconfig()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
