package docker

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/portolan/internal/loopbacktest"
	"portolan.dev/registrar/dockertest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/token"
)

// TestDevRegistersContainers checks that portolan dev --docker makes a container with a label a backend that
// clients reach by a virtual IP.
func TestDevRegistersContainers(t *testing.T) {
	lab, network, data := dockertest.New(t, "x"), loopbacktest.Claim(t), t.TempDir()
	labtest.Run(t, "dev", exec.Command(filepath.Join(bin, "portolan"), "dev", "--docker", "--data-dir", data, "--bind", network.Bind(),
		"--service-cidr", network.Services(), "--pod-cidr", network.Pods(), "--load-balancer-cidr", network.Balancers(), "--dns-addr", network.DNS()), topology.Own(t, "machine"))
	lab.Start("a", dockertest.Serving("hello", "true"), append(lab.Web(), "--network", lab.Networks[0])...)

	var secret *token.Token
	kittest.Eventually(t, "the token", func() (err error) {
		secret, err = token.Read(filepath.Join(data, "token"))
		return err
	})
	conn, err := rpc.TCP().Dial(network.Addr("0.1", agentPort), grpc.WithPerRPCCredentials(secret))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	url := awaitForwarding(t, nodeagentv1.NewNodeAgentServiceClient(conn), lab.Mark, 1)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	kittest.Eventually(t, url, func() error { // the container's server may start after the container
		page, err := get(client, url)
		if err == nil && page != "hello" {
			err = fmt.Errorf("the page is %q", page)
		}
		return err
	})
}
