package registry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
)

func revocations(t *testing.T, client registryv1.RevocationServiceClient) []*corev1.Revocation {
	t.Helper()
	answer, err := client.ListRevocations(within(t), &registryv1.ListRevocationsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetRevocations()
}

// TestDeletionOfANodeRevokesItsAgent deletes a Node while its agent writes. The agent must be
// refused before it can create the Node again, and the agent with a new certificate must not. The
// certificates of the node's edge are revoked with it.
func TestDeletionOfANodeRevokesItsAgent(t *testing.T) {
	g := guard(t)
	operator, agent := g.as("operator"), registryv1.NewNodeServiceClient(g.as("nodeagent/n1"))
	create := func(agent registryv1.NodeServiceClient) error {
		_, err := agent.CreateNode(within(t), &registryv1.CreateNodeRequest{Node: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}}})
		return err
	}
	if err := create(agent); err != nil {
		t.Fatal(err)
	}
	nodes := registryv1.NewNodeServiceClient(operator)
	if _, err := nodes.DeleteNode(within(t), &registryv1.DeleteNodeRequest{Name: "n1", DryRun: true}); err != nil {
		t.Fatal(err)
	}
	if found := revocations(t, registryv1.NewRevocationServiceClient(operator)); len(found) > 0 {
		t.Errorf("a dry run revoked %v", found)
	}
	before := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // the agent insists on its Node
		for {
			if err := create(agent); err != nil && !apierr.IsAlreadyExists(err) || ctx.Err() != nil {
				before <- err
				return
			}
		}
	}()
	if _, err := nodes.DeleteNode(within(t), &registryv1.DeleteNodeRequest{Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	if err := <-before; status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "(Node n1 was deleted): portolan certs issue nodeagent/n1 --force makes a new one") {
		t.Errorf("the agent of the deleted node: %v", err)
	}
	if _, err := nodes.GetNode(within(t), &registryv1.GetNodeRequest{Name: "n1"}); !apierr.IsNotFound(err) {
		t.Errorf("the deleted node: %v", err)
	}
	found := revocations(t, registryv1.NewRevocationServiceClient(operator))
	var denied []string
	for _, r := range found {
		denied = append(denied, r.GetSpec().GetIdentity())
	}
	if !slices.Equal(denied, []string{"edge/n1", "nodeagent/n1", "registrar/n1"}) || found[0].GetSpec().GetExpires().AsTime().Before(time.Now().Add(8000*time.Hour)) {
		t.Fatalf("revocations %v", found)
	}
	kittest.Eventually(t, "an agent with a certificate that was issued later", func() error {
		return create(registryv1.NewNodeServiceClient(g.as("nodeagent/n1")))
	})
}

// TestDeletionOfANodeWithoutCertificates checks that an installation without TLS has no
// Revocations.
func TestDeletionOfANodeWithoutCertificates(t *testing.T) {
	_, r := run(t)
	if _, err := r.nodes.CreateNode(within(t), &registryv1.CreateNodeRequest{Node: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.nodes.DeleteNode(within(t), &registryv1.DeleteNodeRequest{Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	if found := revocations(t, registryv1.NewRevocationServiceClient(r)); len(found) > 0 {
		t.Errorf("revocations %v", found)
	}
}

// TestRevocationsExpire checks that a Revocation goes when its certificates have expired, that its
// spec does not change before, and that the registry forgets it then.
func TestRevocationsExpire(t *testing.T) {
	_, r := run(t, func(c *registry.Config) { c.RevocationTTL, c.ReapInterval = 2*time.Second, 10*time.Millisecond })
	client := registryv1.NewRevocationServiceClient(r)
	created, err := client.CreateRevocation(within(t), &registryv1.CreateRevocationRequest{Revocation: &corev1.Revocation{
		Metadata: &corev1.ObjectMeta{Name: "r"}, Spec: &corev1.RevocationSpec{Serial: "00:AB:c1"},
	}})
	if err != nil || created.GetRevocation().GetSpec().GetSerial() != "abc1" {
		t.Fatalf("%v, %v", created, err)
	}
	changed := created.GetRevocation()
	changed.Spec.Reason = "another"
	if _, err := client.UpdateRevocation(within(t), &registryv1.UpdateRevocationRequest{Revocation: changed}); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "delete it, and create another") {
		t.Errorf("a change of the spec: %v", err)
	}
	kittest.Eventually(t, "the revocation expires", func() error {
		if found := revocations(t, client); len(found) > 0 {
			return fmt.Errorf("there is %v", found[0])
		}
		return nil
	})
}

// TestRevocationsAreReadByAgents checks which roles may read and write Revocations.
func TestRevocationsAreReadByAgents(t *testing.T) {
	g := guard(t)
	write := func(who string) error {
		_, err := registryv1.NewRevocationServiceClient(g.as(who)).CreateRevocation(within(t), &registryv1.CreateRevocationRequest{Revocation: &corev1.Revocation{
			Metadata: &corev1.ObjectMeta{GenerateName: "r-"},
			Spec:     &corev1.RevocationSpec{Identity: "nodeagent/n9", IssuedBefore: timestamppb.Now()},
		}})
		return err
	}
	if err := write("operator"); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"operator/shop", "viewer", "nodeagent/n1", "endpointctl", "workload/n1/default"} {
		if err := write(who); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s writes a Revocation: %v", who, err)
		}
		if who == "operator/shop" {
			_, err := registryv1.NewApplyServiceClient(g.as(who)).Apply(within(t), &registryv1.ApplyRequest{Object: &corev1.Object{Kind: &corev1.Object_Revocation{
				Revocation: &corev1.Revocation{Metadata: &corev1.ObjectMeta{Name: "r"}, Spec: &corev1.RevocationSpec{Identity: "operator"}},
			}}})
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s applies a Revocation: %v", who, err)
			}
		}
	}
	for _, who := range []string{"nodeagent/n1", "dnssvc", "endpointctl", "allocator"} {
		stream, err := registryv1.NewChangeServiceClient(g.as(who)).Snapshot(within(t), &registryv1.SnapshotRequest{Kinds: []string{"Revocation"}})
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := stream.Recv(); err != nil || len(answer.GetObjects()) != 1 {
			t.Errorf("%s reads %v, %v", who, answer, err)
		}
	}
}

// TestReplicasRefuseRevokedCertificates revokes a certificate at one of two registries, and uses it
// at the other and at one that starts later.
func TestReplicasRefuseRevokedCertificates(t *testing.T) {
	dsn := kittest.Postgres(t)
	g := guard(t, func(c *registry.Config) { c.Store = dsn })
	call := func(changes registryv1.ChangeServiceClient) error {
		_, err := changes.GetHead(within(t), &registryv1.GetHeadRequest{})
		return err
	}
	other := registryv1.NewChangeServiceClient(g.dial(g.replica(), "viewer"))
	if err := call(other); err != nil {
		t.Fatal(err)
	}
	if _, err := registryv1.NewRevocationServiceClient(g.as("operator")).CreateRevocation(within(t), &registryv1.CreateRevocationRequest{Revocation: &corev1.Revocation{
		Metadata: &corev1.ObjectMeta{Name: "r"}, Spec: &corev1.RevocationSpec{Identity: "viewer", IssuedBefore: timestamppb.New(time.Now().Add(time.Hour))},
	}}); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the refusal at the other registry", func() error {
		if err := call(other); status.Code(err) != codes.Unauthenticated {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	if err := call(registryv1.NewChangeServiceClient(g.dial(g.replica(), "viewer"))); err == nil || !strings.Contains(err.Error(), "it was revoked") {
		t.Errorf("a registry that started later: %v", err)
	}
}
