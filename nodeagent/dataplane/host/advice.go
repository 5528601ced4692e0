package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"portolan.dev/nodeagent/dataplane/kernelmode"
)

// Advice returns settings that may harm the plane's traffic, but that the plane does not change
// because they also concern other traffic. It reads them in the namespace of the calling thread.
func Advice() []kernelmode.Setting {
	return slices.Concat(reversePath(), bridges())
}

// reversePath returns the devices that drop packets if the answers would leave by another device.
func reversePath() []kernelmode.Setting {
	const strict = "1"
	paths, _ := filepath.Glob(sysctlPath("net.ipv4.conf.*.rp_filter")) // the pattern is right
	modes := map[string]string{}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil {
			modes[filepath.Base(filepath.Dir(path))] = strings.TrimSpace(string(text))
		}
	}
	var devices []string
	for device, mode := range modes {
		if device != "all" && device != "default" && device != "lo" && max(mode, modes["all"]) == strict {
			devices = append(devices, device)
		}
	}
	if len(devices) == 0 {
		return nil
	}
	slices.Sort(devices)
	return []kernelmode.Setting{{
		Name: "net.ipv4.conf." + shorten(devices) + ".rp_filter", Before: strict,
		Remedy: "packets whose answers would leave by another device are dropped, such as those of clients " +
			"that reach a virtual IP by a second network; where there are such clients: sysctl -w net.ipv4.conf.all.rp_filter=2",
	}}
}

// bridges returns the bridges that may disturb traffic of pods.
func bridges() []kernelmode.Setting {
	links, err := netlink.LinkList()
	if err != nil {
		return nil
	}
	var names, ports []string
	for _, l := range links {
		if l.Type() == "bridge" {
			names = append(names, l.Attrs().Name)
		}
		if info, err := netlink.LinkGetProtinfo(l); l.Attrs().MasterIndex != 0 && err == nil && !info.Hairpin {
			ports = append(ports, l.Attrs().Name)
		}
	}
	name := bridgeSettings[0]
	text, err := os.ReadFile(sysctlPath(name))
	switch found := strings.TrimSpace(string(text)); {
	case len(names) == 0:
		return nil
	case err != nil || found == "0":
		return []kernelmode.Setting{{Name: name, Before: "0", Remedy: fmt.Sprintf(
			"backends do not see the address of a pod that is on the same bridge (%s) and asks through a virtual IP; "+
				"to show it: modprobe br_netfilter && sysctl -w %s=1", shorten(names), name)}}
	case len(ports) > 0:
		return []kernelmode.Setting{{Name: name, Before: found, Remedy: fmt.Sprintf(
			"a pod on a bridge reaches itself through a virtual IP only where its port sends back: "+
				"bridge link set dev PORT hairpin on (now off: %s)", shorten(ports))}}
	}
	return nil
}

// shorten lists some of many devices.
func shorten(devices []string) string {
	const most = 5
	if more := len(devices) - most; more > 0 {
		return fmt.Sprintf("{%s and %d more}", strings.Join(devices[:most], ","), more)
	}
	if len(devices) == 1 {
		return devices[0]
	}
	return "{" + strings.Join(devices, ",") + "}"
}
