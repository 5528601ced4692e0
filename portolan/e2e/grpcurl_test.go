package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// grpcurl runs the tool of users without a client of their own. It gets everything it needs by
// reflection, and the token from its environment, because other users can read arguments.
type grpcurl struct {
	*testing.T
	program string
	address string
}

func newGRPCurl(i *installation, port int) grpcurl {
	t := i.T
	t.Helper()
	secret, err := os.ReadFile(i.tokenFile())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOKEN", strings.TrimSpace(string(secret)))
	program := filepath.Join(bin, "grpcurl")
	if _, err := os.Stat(program); err != nil {
		if err := kittest.BuildAlone("../../tools/grpcurl", bin, "github.com/fullstorydev/grpcurl/cmd/grpcurl"); err != nil {
			t.Fatal(err)
		}
	}
	return grpcurl{T: t, program: program, address: i.api(port)}
}

func (g grpcurl) run(args ...string) (string, error) {
	g.Helper()
	out, errOut, err := runProgram(g.T, "", g.program, append([]string{"-expand-headers", "-H", "authorization: Bearer ${TOKEN}"}, args...)...)
	return out + errOut, err
}

func (g grpcurl) must(args ...string) string {
	g.Helper()
	out, err := g.run(args...)
	if err != nil {
		g.Fatalf("grpcurl %v: %v\n%s", args, err, out)
	}
	return out
}

// call calls a method with data and returns the output, also for an error status.
func (g grpcurl) call(method, data string) string {
	g.Helper()
	out, _ := g.run("-plaintext", "-max-time", "1", "-d", data, g.address, method)
	return out
}

// TestGRPCurl lists, describes and calls every method of every daemon by reflection.
func TestGRPCurl(t *testing.T) {
	i := install(t)
	called := 0
	for _, port := range []int{7400, 7401, 7402, 7403, 7404} {
		g := newGRPCurl(i, port)
		for _, service := range strings.Fields(g.must("-plaintext", g.address, "list")) {
			if strings.HasPrefix(service, "grpc.") {
				continue
			}
			described := g.must("-plaintext", g.address, "describe", service)
			for _, method := range strings.Fields(g.must("-plaintext", g.address, "list", service)) {
				if name := method[strings.LastIndexByte(method, '.')+1:]; !strings.Contains(described, "rpc "+name+" (") {
					t.Errorf("describe %s does not show %s:\n%s", service, name, described)
				}
				out := g.call(method, "{}")
				for _, bug := range []string{"Unimplemented", "Internal", "Unknown", "Unauthenticated"} {
					if strings.Contains(out, "Code: "+bug+"\n") {
						t.Errorf("%s with an empty request: %s", method, out)
					}
				}
				called++
			}
		}
	}
	if called < 70 {
		t.Errorf("%d methods were found; the contract has more", called)
	}
}

// TestThreeFaultsAtOnce checks that the error of a bad service lists every violation with its
// field.
func TestThreeFaultsAtOnce(t *testing.T) {
	i := install(t)
	g := newGRPCurl(i, 7400)
	out, err := g.run("-plaintext", "-format-error", "-d", `{"service": {"metadata": {"name": "Bad_Name"}, "spec": {
		"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 70000}]}}}`, g.address, "portolan.registry.v1.ServiceService/CreateService")
	if err == nil {
		t.Fatalf("it was taken: %s", out)
	}
	var status struct {
		Details []struct {
			FieldViolations []struct{ Field string } `json:"fieldViolations"`
		}
	}
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &status); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	var fields []string
	for _, detail := range status.Details {
		for _, violation := range detail.FieldViolations {
			fields = append(fields, violation.Field)
		}
	}
	for _, want := range []string{"metadata.name", "spec.ports[1].name", "spec.ports[1].port"} {
		if !strings.Contains(strings.Join(fields, " ")+" ", want+" ") {
			t.Errorf("violations name %v, not %s", fields, want)
		}
	}
}
