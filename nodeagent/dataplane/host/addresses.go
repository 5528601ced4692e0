package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// addressGroups are the netlink groups for changes of addresses.
const addressGroups = unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR

// WatchAddresses calls changed whenever an address of the machine is added or removed, until ctx is
// done. Several changes at once may cause one call.
func WatchAddresses(ctx context.Context, changed func()) error {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Groups: addressGroups})
	if err != nil {
		return fmt.Errorf("watch addresses: %w", err)
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	for {
		_, err := conn.Receive()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, unix.ENOBUFS) { // changes were lost, and one call covers them all
			return fmt.Errorf("watch addresses: %w", err)
		}
		changed()
	}
}
