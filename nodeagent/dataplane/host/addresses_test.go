package host_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/vishvananda/netlink"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/services/kit/kittest"
)

// TestWatchAddresses checks that a new address is reported.
func TestWatchAddresses(t *testing.T) {
	kerneltest.Need(t)
	ns := topology.New(t, "node")
	news := make(chan struct{}, 1000)
	kittest.Run(t, "watch", func(ctx context.Context) error {
		return host.Within(ns.Path, func() error {
			return host.WatchAddresses(ctx, func() { news <- struct{}{} })
		})
	})
	lo, addr := link(t, ns), &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(198, 51, 100, 77), Mask: net.CIDRMask(32, 32)}}
	change := func(fn func(netlink.Link, *netlink.Addr) error) {
		t.Helper()
		if err := host.Within(ns.Path, func() error { return fn(lo, addr) }); err != nil {
			t.Fatal(err)
		}
	}
	// The watch may not have begun yet, so the address is added and removed until a change is
	// reported.
	kittest.Eventually(t, "news of an address", func() error {
		change(netlink.AddrReplace)
		change(netlink.AddrDel)
		if len(news) == 0 {
			return errors.New("none")
		}
		return nil
	})
}

func link(t *testing.T, ns *topology.Namespace) (lo netlink.Link) {
	t.Helper()
	err := host.Within(ns.Path, func() (err error) {
		lo, err = netlink.LinkByName("lo")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lo
}
