package probe

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// GRPC returns a check that succeeds if the server at the address (host:port) says that the service
// is serving. An empty service stands for the server as a whole.
func GRPC(addr, service string) Check {
	return Check(func(ctx context.Context) error {
		conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(userAgent),
			grpc.WithMaxHeaderListSize(maxHeader), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxBody)))
		if err != nil {
			return err
		}
		defer conn.Close()
		res, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			return err
		}
		if s := res.GetStatus(); s != healthpb.HealthCheckResponse_SERVING {
			return fmt.Errorf("service %q is %s", service, s)
		}
		return nil
	}).shortened()
}
