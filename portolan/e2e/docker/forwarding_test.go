package docker

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/services/kit/kittest"
)

// awaitForwarding waits until an agent forwards the service web to n backends, and returns the URL of its
// virtual IP.
func awaitForwarding(t *testing.T, agent nodeagentv1.NodeAgentServiceClient, namespace string, n int) (url string) {
	t.Helper()
	kittest.Eventually(t, fmt.Sprintf("a virtual IP with %d backends", n), func() error {
		plan, err := agent.GetPlan(t.Context(), &nodeagentv1.GetPlanRequest{Namespace: namespace, Name: "web"})
		if err != nil {
			return err
		}
		servers := plan.GetVirtualServers()
		if len(servers) != 1 {
			return fmt.Errorf("there are %d virtual servers, want 1", len(servers))
		}
		if used := rollout.UsedBackends(servers[0]); used != n || !servers[0].GetProgrammed() {
			return fmt.Errorf("%d backends are in use, programmed %v %s", used, servers[0].GetProgrammed(), servers[0].GetError())
		}
		url = fmt.Sprintf("http://%s:%d/", servers[0].GetAddress(), servers[0].GetPort())
		return nil
	})
	return url
}

// get gets a page by a new connection.
func get(client *http.Client, url string) (page string, err error) {
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", response.Status)
	}
	return strings.TrimSpace(string(body)), err
}
