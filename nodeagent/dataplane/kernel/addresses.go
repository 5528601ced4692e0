package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// addressGroups are the kernel's groups for news of addresses.
const addressGroups = unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR

// WatchAddresses calls changed whenever an address of the machine comes or goes,
// until ctx is done. Several changes at once may be one call.
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
		if err != nil && !errors.Is(err, unix.ENOBUFS) { // of those that were lost, one call is as good as many
			return fmt.Errorf("watch addresses: %w", err)
		}
		changed()
	}
}
