package attacks

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// TestHeartbeatCannotRedirectTheOperator sends a heartbeat of node n1 with the address of n2's agent.
// The command "node drain n1" then connects to n2's agent. It must fail, and n2 must not drain.
func TestHeartbeatCannotRedirectTheOperator(t *testing.T) {
	i := install(t)
	i.Nodes[0].Process.Stop()
	nc, err := nats.Connect(i.NATS(), nats.Secure(i.Source(i.Issue("nodeagent/n1", time.Hour)).TLS(identity.NATS)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	subjects, err := changes.NewSubjects(changes.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	lie, err := proto.Marshal(&nodeagentv1.Heartbeat{Node: "n1", Address: fmt.Sprintf("%s:7404", i.Nodes[1].Addresses[0])})
	if err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the refusal of the agent of another node", func() error {
		if err := nc.Publish(subjects.Heartbeat("n1"), lie); err != nil {
			return err
		}
		out, err := labtest.Command(t, "portolan", []string{
			"--server", i.RegistryAt().String(), "--certs", i.Certs, "--timeout", "5s", "node", "drain", "n1",
		}).CombinedOutput()
		if err == nil {
			t.Fatalf("the operator drained the agent at the reported address:\n%s", out)
		}
		if want := "(spiffe://portolan/nodeagent/n2) is not nodeagent/n1"; !strings.Contains(string(out), want) {
			return errors.New(string(out))
		}
		return nil
	})
	status, err := i.Nodes[1].Agent.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
	if err != nil || status.GetDraining() {
		t.Errorf("n2 is draining: %v, %v", status, err)
	}
}
