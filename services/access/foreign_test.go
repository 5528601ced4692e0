package access_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"portolan.dev/services/access"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// TestForeignRolesAreNoRoles checks that an operator of another trust domain is refused even if its
// certificate authority is trusted, as happens while one authority replaces another.
func TestForeignRolesAreNoRoles(t *testing.T) {
	ours, theirs := kittest.NewCertificates(t), kittest.NewCertificatesOf(t, "elsewhere")
	var both []byte
	for _, ca := range []string{ours.CA(), theirs.CA()} {
		data, err := os.ReadFile(ca)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, data...)
	}
	bundle := filepath.Join(t.TempDir(), "both.crt")
	if err := os.WriteFile(bundle, both, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(files identity.Files) *identity.Source {
		files.CA = bundle
		source, err := identity.Open(identity.Options{Files: files, Log: kittest.Logger(t)})
		if err != nil {
			t.Fatal(err)
		}
		return source
	}
	log := kittest.Logger(t)
	server := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log), Identity: open(ours.Issue("registry", time.Hour)), Authorizer: access.Methods()})
	lis := kittest.Listen(t)
	kittest.Run(t, "server", func(ctx context.Context) error { return server.Serve(ctx, lis) })

	careless := open(theirs.Issue("operator", time.Hour)).TLS(identity.Registry)
	// The client's own check would refuse such a server too.
	careless.VerifyConnection = nil
	conn, err := rpc.TCP().Dial(lis.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(careless)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = conn.Invoke(ctx, "/grpc.health.v1.Health/Check", &emptypb.Empty{}, &emptypb.Empty{})
	want := "/grpc.health.v1.Health/Check was called without an identity: the client's certificate is spiffe://elsewhere/operator, and this is the trust domain portolan"
	if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
