package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"portolan.dev/services/kit/kittest"
)

const restricted = `apiVersion: v1
kind: Service
metadata:
  name: front
  annotations:
    service.beta.kubernetes.io/load-balancer-source-ranges: 192.0.2.0/24
spec:
  type: LoadBalancer
  selector:
    app: front
  ports:
    - port: 80
`

// TestManifestTakesBackWhatItSaid checks that a field removed from a manifest is shown by diff, and
// is removed from the object by apply.
func TestManifestTakesBackWhatItSaid(t *testing.T) {
	i := install(t)
	i.apply(restricted)
	open := strings.Replace(restricted, "    service.beta.kubernetes.io/load-balancer-source-ranges: 192.0.2.0/24\n", "    example.com/team: a\n", 1)

	shown, _, err := i.try(open, "diff", "-f", "-")
	if exitCode(err) != 1 {
		t.Errorf("diff of a change: %v\n%s", err, shown)
	}
	for _, line := range []string{"-    service.beta.kubernetes.io/load-balancer-source-ranges: 192.0.2.0/24", "+    example.com/team: a"} {
		if !strings.Contains(shown, line) {
			t.Errorf("diff does not show %q:\n%s", line, shown)
		}
	}
	if out := i.apply(open); out != "service/front configured\n" {
		t.Errorf("apply: %q", out)
	}
	if shown, _, err := i.try(open, "diff", "-f", "-"); err != nil || shown != "" {
		t.Errorf("diff of what was applied: %v\n%s", err, shown)
	}
	inside := strings.Replace(open, "  type: LoadBalancer\n", "", 1)
	i.apply(restricted)
	i.apply(inside)
	kittest.Eventually(t, "lbctl to remove its annotation", func() error {
		if svc := i.service("front"); len(svc.GetMetadata().GetAnnotations()) != 1 || svc.GetSpec().GetPorts()[0].GetNodePort() != 0 {
			return fmt.Errorf("as a ClusterIP the service is %v", svc)
		}
		return nil
	})
	if _, errOut, err := i.try(strings.Replace(open, "port: 80", "port: 0", 1), "diff", "-f", "-"); exitCode(err) != 2 || !strings.Contains(errOut, "spec.ports[0].port") {
		t.Errorf("diff of a manifest that cannot be applied: %v\n%s", err, errOut)
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}
