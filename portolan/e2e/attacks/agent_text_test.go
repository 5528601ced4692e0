package attacks

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// hostileAgent is the API of an agent. Every answer has the hostile text in every field for text, or is an
// error with it.
type hostileAgent struct {
	nodeagentv1.UnimplementedNodeAgentServiceServer
	fails bool
}

func hostileAnswer[M proto.Message](a *hostileAgent, answer M) (M, error) {
	if a.fails {
		return answer, status.Error(codes.FailedPrecondition, hostileText)
	}
	poison(answer.ProtoReflect())
	return answer, nil
}

func (a *hostileAgent) GetStatus(context.Context, *nodeagentv1.GetStatusRequest) (*nodeagentv1.GetStatusResponse, error) {
	return hostileAnswer(a, &nodeagentv1.GetStatusResponse{})
}

func (a *hostileAgent) GetPlan(context.Context, *nodeagentv1.GetPlanRequest) (*nodeagentv1.GetPlanResponse, error) {
	return hostileAnswer(a, &nodeagentv1.GetPlanResponse{})
}

func (a *hostileAgent) Resync(context.Context, *nodeagentv1.ResyncRequest) (*nodeagentv1.ResyncResponse, error) {
	return hostileAnswer(a, &nodeagentv1.ResyncResponse{Repaired: 1})
}

func (a *hostileAgent) SetDraining(context.Context, *nodeagentv1.SetDrainingRequest) (*nodeagentv1.SetDrainingResponse, error) {
	return hostileAnswer(a, &nodeagentv1.SetDrainingResponse{})
}

// poison puts the hostile text into every field for text of a message. Lists get one element.
func poison(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.IsMap():
		case field.IsList() && field.Message() != nil:
			list := m.Mutable(field).List()
			element := list.NewElement()
			poison(element.Message())
			list.Append(element)
		case field.IsList() && field.Kind() == protoreflect.StringKind:
			m.Mutable(field).List().Append(protoreflect.ValueOfString(hostileText))
		case field.Kind() == protoreflect.StringKind:
			m.Set(field, protoreflect.ValueOfString(hostileText))
		}
	}
}

// TestAnswersOfAgentsCannotDriveTheTerminal answers the operator's commands with the certificate of
// n1's agent, in heartbeats and in its API.
func TestAnswersOfAgentsCannotDriveTheTerminal(t *testing.T) {
	i := install(t)
	i.Nodes[0].Process.Stop()
	writePodCondition(t, i, i.DialAs(i.Issue("nodeagent/n1", time.Hour), identity.Registry, i.RegistryAt()))
	source := i.Source(i.Issue("nodeagent/n1", time.Hour))
	log := kittest.Logger(t)
	server := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log), Identity: source, Authorizer: access.Methods()})
	agent := &hostileAgent{}
	nodeagentv1.RegisterNodeAgentServiceServer(server, agent)
	lis := kittest.Listen(t)
	kittest.Run(t, "the attacker's agent", func(ctx context.Context) error { return server.Serve(ctx, lis) })
	nc, err := nats.Connect(i.NATS(), nats.Secure(source.TLS(identity.NATS)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	subjects, err := changes.NewSubjects(changes.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	beat := &nodeagentv1.Heartbeat{}
	poison(beat.ProtoReflect())
	beat.Node, beat.Address, beat.Synced, beat.AppliedRevision = "n1", lis.Addr().String(), true, 1<<40
	lie, err := proto.Marshal(beat)
	if err != nil {
		t.Fatal(err)
	}
	run := func(arguments string) string {
		if err := errors.Join(nc.Publish(subjects.Heartbeat("n1"), lie), nc.Flush()); err != nil {
			t.Fatal(err)
		}
		flags := []string{"--server", i.RegistryAt().String(), "--certs", i.Certs}
		// Some commands fail, which does not matter.
		out, _ := labtest.Command(t, "portolan", append(flags, strings.Fields(arguments)...)).CombinedOutput()
		return string(out)
	}
	kittest.Eventually(t, "the heartbeat of the attacker", func() error {
		if out := run("node status"); !strings.Contains(out, `]0;owned`) {
			return errors.New(out)
		}
		return nil
	})
	for _, agent.fails = range []bool{false, true} {
		for _, arguments := range []string{
			"node status", "node status -o json", "node status n1", "node status n1 -o yaml", "node plan n1", "node plan n1 web", "node plan n1 web -o json",
			"node resync n1", "node drain n1", "explain service web", "explain service web -o json", "wait service/web --applied --timeout 0s", "describe service web",
		} {
			out := run(arguments)
			if fault := obeyed(out); fault != "" {
				t.Errorf("%s (fails: %v) prints %s:\n%q", arguments, agent.fails, fault, out)
			}
			if !strings.Contains(out, `]0;owned`) && arguments != "node drain n1" && arguments != "describe service web" {
				t.Errorf("%s (fails: %v) does not show the text:\n%q", arguments, agent.fails, out)
			}
		}
	}
}
