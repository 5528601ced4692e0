package attacks

import (
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	endpointsv1 "portolan.dev/api/endpoints/v1"
	"portolan.dev/services/kit/identity"
)

// TestBoundRolesAskOtherDaemonsNothing calls every method of the daemons beside the registry with the
// certificates of an operator and a viewer of namespace a, of a workload and of a registrar. They may ask a name
// server a question, and operators and viewers may ask about the endpoints of their own services.
func TestBoundRolesAskOtherDaemonsNothing(t *testing.T) {
	i := install(t)
	newNamespaces(t, i.Conn)
	at := i.RegistryAt().Addr()
	daemons := map[string]struct {
		role identity.Role
		at   netip.AddrPort
	}{
		"portolan.allocator.v1": {identity.Allocator, i.AllocatorAt()},
		"portolan.endpoints.v1": {identity.EndpointCtl, netip.AddrPortFrom(at, 7402)},
		"portolan.dns.v1":       {identity.DNSSvc, netip.AddrPortFrom(at, 7403)},
		"portolan.nodeagent.v1": {identity.NodeAgent, netip.AddrPortFrom(i.Nodes[0].Addresses[0], 7404)},
	}
	const (
		explain = "/portolan.endpoints.v1.EndpointControllerService/ExplainService"
		report  = "/portolan.nodeagent.v1.NodeAgentService/ReportCheck" // about pods of their own; see TestReportsAboutOwnPodsOnly
	)
	open := map[string]map[string]bool{
		"operator/a":   {explain: true, report: true, "/portolan.dns.v1.DNSService/Query": true},
		"viewer/a":     {explain: true, "/portolan.dns.v1.DNSService/Query": true},
		"registrar/n1": {report: true},
		"workload/n1":  {report: true, "/portolan.dns.v1.DNSService/GetStatus": true}, // the name servers for the program's resolv.conf
	}
	for who, may := range open {
		files := i.Issue(who, time.Hour)
		for pkg, daemon := range daemons {
			conn := i.DialAs(files, daemon.role, daemon.at)
			for _, method := range methodsOf(pkg) {
				err := conn.Invoke(t.Context(), method, &emptypb.Empty{}, &emptypb.Empty{})
				if denied := status.Code(err) == codes.PermissionDenied; !denied && !may[method] {
					t.Errorf("%s calls %s: %v", who, method, err)
				}
			}
			if pkg == "portolan.endpoints.v1" && (who == "operator/a" || who == "viewer/a") {
				explainAs(t, conn, who)
			}
		}
	}
}

// explainAs asks for the endpoints of services in both namespaces, of which a is the caller's.
func explainAs(t *testing.T, conn *grpc.ClientConn, who string) {
	t.Helper()
	for namespace, want := range map[string]codes.Code{"a": codes.OK, "b": codes.PermissionDenied, "": codes.PermissionDenied} {
		_, err := endpointsv1.NewEndpointControllerServiceClient(conn).ExplainService(t.Context(), &endpointsv1.ExplainServiceRequest{Namespace: namespace, Name: "web"})
		if status.Code(err) != want {
			t.Errorf("%s explains a service of %q: %v, want %s", who, namespace, err, want)
		}
	}
}
