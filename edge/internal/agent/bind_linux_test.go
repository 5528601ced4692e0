package agent

import (
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"portolan.dev/services/kit/kittest"
)

// TestControl checks that a socket can be bound to an address of IPv6 that no device has, if there is an
// agent that makes it local.
func TestControl(t *testing.T) {
	probe, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("allowed: no IPv6 on this machine")
	}
	_ = probe.Close()
	conn := kittest.Conn(t, func(grpc.ServiceRegistrar) {})
	for name, client := range map[string]*Client{
		"with an agent": New(conn, func() {}, kittest.Logger(t)), "without": New(nil, func() {}, kittest.Logger(t)),
	} {
		config := net.ListenConfig{Control: client.Control}
		lis, err := config.Listen(t.Context(), "tcp", "[2001:db8::1]:0")
		if err == nil {
			_ = lis.Close()
		}
		if bound := err == nil; bound != (client.conn != nil) || !bound && !strings.Contains(err.Error(), "cannot assign") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
