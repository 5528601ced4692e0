package attacks

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/identity"
)

const (
	floodingClients = 16
	floodedCalls    = 20_000
	// auditBound is the size that the audit log of the test may have, in MiB.
	auditBound = 1
)

// TestAuditLogNamesTheAttacker tries forbidden writes with the stolen certificate of a node agent,
// and reads the caller, its address and the outcome in the audit log. Then it has 20,000 calls refused, to
// push its traces out of the log or to fill the disk. Other clients write meanwhile.
func TestAuditLogNamesTheAttacker(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	i := labtest.Install(t, labtest.Options{
		Secured: true, Nodes: []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}, {Name: "n2", ProxyMode: "userspace"}},
		Flags: map[string][]string{"registry": {"-audit-log", path, "-audit-log-max-bytes", fmt.Sprint(auditBound), "-audit-log-keep", "1"}},
	})
	files := i.Issue("nodeagent/n1", time.Hour)
	serial := serialOf(t, files)
	conn := i.DialAs(files, identity.Registry, i.RegistryAt())
	attempts := map[string]func() error{
		"ServiceService/CreateService": func() error {
			_, err := registryv1.NewServiceServiceClient(conn).CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "evil"}}})
			return err
		},
		"NodeService/UpdateNodeStatus": func() error {
			node := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n2", Annotations: map[string]string{"note": podPassword}}}
			_, err := registryv1.NewNodeServiceClient(conn).UpdateNodeStatus(t.Context(), &registryv1.UpdateNodeStatusRequest{Node: node})
			return err
		},
	}
	for what, attempt := range attempts {
		if err := attempt(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
	services := registryv1.NewServiceServiceClient(i.Conn)
	if _, err := services.CreateService(t.Context(), newHeadless("before")); err != nil {
		t.Fatal(err)
	}

	floodRefusedCalls(t, conn)
	if _, err := services.CreateService(t.Context(), newHeadless("after")); err != nil {
		t.Fatal(err)
	}
	dropped := i.Metric("registry", `portolan_audit_dropped_total{cause="rate"}`)
	i.Processes["registry"].Stop()

	lines, missing := readAudit(t, path)
	if dropped == 0 || missing < int64(dropped) {
		t.Errorf("the metric has %v dropped lines, the log %d", dropped, missing)
	}
	t.Logf("of %d refused calls %d are in the log", floodedCalls, floodedCalls-missing)
	for what := range attempts {
		if !contains(lines, func(e audit.Entry) bool {
			return strings.HasSuffix(e.Method, what) && e.Identity == "nodeagent/n1" && e.Serial == serial && e.Code == "PERMISSION_DENIED" &&
				strings.HasPrefix(e.Peer, i.RegistryAt().Addr().String()+":") && e.Reason != "" // the test is in the hub
		}) {
			t.Errorf("the log does not say that nodeagent/n1 with the serial %s tried %s", serial, what)
		}
	}
	for _, name := range []string{"before", "after"} {
		if !contains(lines, func(e audit.Entry) bool {
			return e.Name == name && e.Identity == "operator" && e.Code == "OK" && e.Revision > 0
		}) {
			t.Errorf("the log does not have the operator's write of %s", name)
		}
	}
}

func newHeadless(name string) *registryv1.CreateServiceRequest {
	return &registryv1.CreateServiceRequest{Service: &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: name}, Spec: &corev1.ServiceSpec{ClusterIp: "None", Ports: []*corev1.ServicePort{{Port: 80}}},
	}}
}

// floodRefusedCalls makes calls that are refused because of the role.
func floodRefusedCalls(t *testing.T, conn *grpc.ClientConn) {
	services := registryv1.NewServiceServiceClient(conn)
	var clients sync.WaitGroup
	for range floodingClients {
		clients.Go(func() {
			for range floodedCalls / floodingClients {
				if _, err := services.CreateService(t.Context(), &registryv1.CreateServiceRequest{}); status.Code(err) != codes.PermissionDenied {
					t.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
}

// readAudit returns the calls in the files of an audit log, and the number of lines that they say
// are missing. It checks the sizes and modes of the files, and looks for a secret.
func readAudit(t *testing.T, path string) (lines []audit.Entry, missing int64) {
	t.Helper()
	all, err := filepath.Glob(path + "*")
	if err != nil || len(all) == 0 || len(all) > 2 {
		t.Fatalf("the files %v, %v", all, err)
	}
	for _, name := range all {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > auditBound<<20 || info.Mode() != 0o600 {
			t.Errorf("%s has %d bytes, mode %s", name, info.Size(), info.Mode())
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), podPassword) {
			t.Errorf("%s has a secret", name)
		}
		for text := range strings.Lines(string(content)) {
			var line struct {
				audit.Entry
				Dropped int64 `json:"dropped"`
			}
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			lines, missing = append(lines, line.Entry), missing+line.Dropped
		}
	}
	return lines, missing
}

func contains(lines []audit.Entry, match func(audit.Entry) bool) bool {
	for _, e := range lines {
		if match(e) {
			return true
		}
	}
	return false
}

// serialOf returns the serial number of a certificate.
func serialOf(t *testing.T, files identity.Files) string {
	t.Helper()
	text, err := os.ReadFile(files.Cert)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return identity.SerialOf(certificate)
}
