package host_test

import (
	"fmt"
	"os"
	"testing"

	"portolan.dev/nodeagent/dataplane/host"
)

// TestVersion checks the version of the running kernel, because settings depend on it.
func TestVersion(t *testing.T) {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	var wantMajor, wantMinor int
	if _, err := fmt.Sscanf(string(release), "%d.%d", &wantMajor, &wantMinor); err != nil {
		t.Fatal(err)
	}
	if major, minor := host.Version(); major != wantMajor || minor != wantMinor {
		t.Errorf("version %d, %d of kernel %s", major, minor, release)
	}
}
