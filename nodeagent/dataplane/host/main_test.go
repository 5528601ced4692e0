package host_test

import (
	"os"
	"testing"

	"portolan.dev/nodeagent/kerneltest"
)

func TestMain(m *testing.M) { kerneltest.MainOrNative(m, probe) }

// probe checks that the kernel has connection tracking.
func probe() error {
	_, err := os.Stat("/proc/sys/net/netfilter/nf_conntrack_max")
	return err
}
