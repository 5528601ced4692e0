package access_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	_ "portolan.dev/api/allocator/v1"
	_ "portolan.dev/api/dns/v1"
	_ "portolan.dev/api/edge/v1"
	_ "portolan.dev/api/endpoints/v1"
	_ "portolan.dev/api/loadbalancer/v1"
	_ "portolan.dev/api/nodeagent/v1"
	_ "portolan.dev/api/registrar/v1"
	_ "portolan.dev/api/registry/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

var update = flag.Bool("update", false, "write the matrix of roles and methods")

// elsewhere lists the services of the contract that other programs implement on their own servers.
var elsewhere = []string{"portolan.loadbalancer.v1.LoadBalancerProviderService"}

// contract returns the services of the contract that Portolan's daemons serve.
func contract() []protoreflect.ServiceDescriptor {
	var services []protoreflect.ServiceDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			if strings.HasPrefix(string(service.FullName()), "portolan.") && !slices.Contains(elsewhere, string(service.FullName())) {
				services = append(services, service)
			}
		}
		return true
	})
	slices.SortFunc(services, func(a, b protoreflect.ServiceDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	return services
}

// describe returns a description of the service in which every method succeeds with an empty
// response.
func describe(service protoreflect.ServiceDescriptor) *grpc.ServiceDesc {
	desc := &grpc.ServiceDesc{ServiceName: string(service.FullName()), HandlerType: (*any)(nil)}
	for i := range service.Methods().Len() {
		method := service.Methods().Get(i)
		name, full := string(method.Name()), fullName(method)
		if method.IsStreamingServer() || method.IsStreamingClient() {
			desc.Streams = append(desc.Streams, grpc.StreamDesc{
				StreamName: name, ServerStreams: true, ClientStreams: true,
				Handler: func(any, grpc.ServerStream) error { return nil },
			})
			continue
		}
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, with grpc.UnaryServerInterceptor) (any, error) {
			in := &emptypb.Empty{}
			if err := decode(in); err != nil {
				return nil, err
			}
			return with(ctx, in, &grpc.UnaryServerInfo{FullMethod: full}, func(context.Context, any) (any, error) { return &emptypb.Empty{}, nil })
		}})
	}
	return desc
}

func fullName(method protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
}

// serve serves the whole contract with mutual TLS on a TCP listener.
func serve(t *testing.T, certs *kittest.Certificates) (addr string) {
	t.Helper()
	log := kittest.Logger(t)
	server := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log), Identity: certs.Source("registry"), Authorizer: access.Methods()})
	for _, service := range contract() {
		server.RegisterService(describe(service), nil)
	}
	lis := kittest.Listen(t)
	kittest.Run(t, "server", func(ctx context.Context) error { return server.Serve(ctx, lis) })
	return lis.Addr().String()
}

// call calls a method with an empty request.
func call(ctx context.Context, conn *grpc.ClientConn, method protoreflect.MethodDescriptor) error {
	if !method.IsStreamingServer() && !method.IsStreamingClient() {
		return conn.Invoke(ctx, fullName(method), &emptypb.Empty{}, &emptypb.Empty{})
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, fullName(method))
	if err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(&emptypb.Empty{}); err == nil || err.Error() != "EOF" {
		return err
	}
	return nil
}

// callers returns the identities that the test has certificates of: one of each role, and those
// that are bound to a namespace.
func callers(t *testing.T) []identity.ID {
	t.Helper()
	var ids []identity.ID
	for _, role := range identity.Roles() {
		id := identity.ID{TrustDomain: identity.DefaultTrustDomain, Role: role}
		if role.OfNode() {
			id.Name = "n1"
		}
		ids = append(ids, id)
		if role == identity.Operator || role == identity.Viewer {
			id.Namespace = "shop"
			ids = append(ids, id)
		}
	}
	return ids
}

// column returns the name of an identity in the matrix: its role, and its namespace if it has one.
func column(id identity.ID) string {
	id.Name = ""
	return id.Path()
}

// TestEveryRoleTriesEveryMethod calls every method of the contract with every role. The admitted
// calls must be equal to the list in testdata/matrix.txt, which is changed by hand on purpose. The
// error of a refused call must name the refused role and the roles that may make the call.
func TestEveryRoleTriesEveryMethod(t *testing.T) {
	certs := kittest.NewCertificates(t)
	addr := serve(t, certs)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	conns := map[identity.ID]*grpc.ClientConn{}
	for _, id := range callers(t) {
		conn, err := rpc.TCP().Dial(addr, certs.Source(id.Path()).DialOption(identity.Registry))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns[id] = conn
	}
	// The roles of foreign servers may not even call the health service. A monitor reads health over
	// HTTP.
	for id, conn := range conns {
		role := id.Role
		_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		if none := slices.Contains([]identity.Role{identity.Monitor, identity.LBProvider, identity.NATS, identity.NATSRoute, identity.Postgres}, role); none != (status.Code(err) == codes.PermissionDenied) || !none && err != nil {
			t.Errorf("health, as %s: %v", role, err)
		}
	}
	var matrix bytes.Buffer
	for _, service := range contract() {
		fmt.Fprintf(&matrix, "%s\n", service.FullName())
		for i := range service.Methods().Len() {
			method := service.Methods().Get(i)
			var may []string
			for _, id := range callers(t) {
				err := call(ctx, conns[id], method)
				if err == nil {
					may = append(may, column(id))
					continue
				}
				text, want := status.Convert(err).Message(), fmt.Sprintf("role %s (%s) may not call %s: use a certificate of the role ", id.Role, id, fullName(method))
				if bound := fmt.Sprintf("role %s (%s) is bound to the namespace %q and may not call %s", id.Role, id, id.Namespace, fullName(method)); strings.HasPrefix(text, bound) {
					want = bound
				}
				if status.Code(err) != codes.PermissionDenied || !strings.HasPrefix(text, want) || strings.Contains(text, "\n") || !strings.Contains(text, "operator") && method.Name() != "Renew" && method.Name() != "Announce" && method.Name() != "Serve" {
					t.Errorf("%s as %s: %v\nwant %q", fullName(method), id, err, want)
				}
			}
			fmt.Fprintf(&matrix, "  %-26s %s\n", method.Name(), strings.Join(may, " "))
		}
	}
	golden := filepath.Join("testdata", "matrix.txt")
	if *update {
		if err := os.WriteFile(golden, matrix.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(matrix.Bytes(), want) {
		t.Errorf("who may call what has changed; if it should, write it by go test ./services/access -update:\n%s", matrix.String())
	}
}

// TestReadersOnlyRead checks the table against the names of methods. The viewer role may call all methods
// that only read, except the methods of private kinds, and no other method.
func TestReadersOnlyRead(t *testing.T) {
	reading := []string{"Get", "List", "Watch", "Explain", "Query", "Render", "Snapshot", "Verify"}
	writes := 0
	for service, methods := range access.Methods() {
		if strings.HasPrefix(service, "grpc.") || service == "portolan.registry.v1.CertificateService" { // it changes no object
			continue
		}
		for method, roles := range methods {
			reads := slices.ContainsFunc(reading, func(verb string) bool { return strings.HasPrefix(method, verb) })
			if slices.Contains(roles, identity.Viewer) != (reads && service != "portolan.registry.v1.SecretService" && service != "portolan.registry.v1.TokenService") {
				t.Errorf("%s/%s: viewer may call it: %v", service, method, !reads)
			}
			if slices.Contains(roles, identity.DNSSvc) && !reads {
				t.Errorf("%s/%s: dnssvc may call it", service, method)
			}
			// An operator is no node, and only a node can announce, or serve addresses on itself.
			if !slices.Contains(roles, identity.Operator) && !slices.Contains([]string{"portolan.loadbalancer.v1.AnnouncerService", "portolan.nodeagent.v1.LocalProxyService"}, service) {
				t.Errorf("%s/%s: an operator may not call it", service, method)
			}
			if !reads {
				writes++
			}
		}
	}
	if writes < 30 {
		t.Errorf("only %d methods write: the table is not what this test thinks", writes)
	}
}

func TestCallersNeedAnIdentity(t *testing.T) {
	err := access.Methods().Authorize(t.Context(), "/portolan.dns.v1.DNSService/Query")
	if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "/portolan.dns.v1.DNSService/Query was called without an identity") {
		t.Errorf("got %v", err)
	}
}

// TestStartNeedsEveryRow checks that a server does not start if a method has no row or a row has no
// method.
func TestStartNeedsEveryRow(t *testing.T) {
	certs := kittest.NewCertificates(t)
	const dns = "portolan.dns.v1.DNSService"
	for name, c := range map[string]struct {
		change func(rows map[string][]identity.Role)
		want   string
	}{
		"no row":      {func(rows map[string][]identity.Role) { delete(rows, "Query") }, "access: no role may call " + dns + "/Query: add a row"},
		"nobody's":    {func(rows map[string][]identity.Role) { rows["Query"] = nil }, "access: no role may call " + dns + "/Query"},
		"unknown row": {func(rows map[string][]identity.Role) { rows["Ask"] = rows["Query"] }, "access: there is a row for " + dns + "/Ask, which does not exist"},
	} {
		table := access.Methods()
		c.change(table[dns])
		log := kittest.Logger(t)
		server := rpc.NewServer(rpc.ServerOptions{
			Log: log, Metrics: obs.NewMetrics(), Health: health.New(log), Identity: certs.Source("dnssvc"), Authorizer: table,
		})
		for _, service := range contract() {
			if string(service.FullName()) == dns {
				server.RegisterService(describe(service), nil)
			}
		}
		if err := server.Serve(t.Context(), kittest.Listen(t)); err == nil || err.Error() != c.want && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// A service that the table does not list is incomplete.
	if err := access.Methods().CheckComplete(map[string]grpc.ServiceInfo{"x.Y": {Methods: []grpc.MethodInfo{{Name: "Z"}}}}); err == nil {
		t.Error("an unknown service is complete")
	}
}
