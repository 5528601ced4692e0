package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/kernelmode"
)

// Forwarding are the settings that every plane in the kernel needs.
var Forwarding = []kernelmode.Setting{
	{Name: "net.ipv4.ip_forward", Want: "1", Watch: true},
	{Name: "net.ipv6.conf.all.forwarding", Want: "1", Watch: true},
}

// StrictARP makes the node not answer ARP requests for addresses that none of its devices has, and
// not use such addresses as the source of its own requests. Virtual addresses are local by a route
// on all nodes alike, so the network would otherwise see all nodes as their owners. IPv6 neighbour
// discovery only answers for addresses of devices anyway.
//
// An ARP table of nftables could do the same for virtual addresses only. It is not used, because
// older kernels and some distributions lack it, and because load balancers in the network document
// these settings.
var StrictARP = []kernelmode.Setting{
	{Name: "net.ipv4.conf.all.arp_ignore", Want: "1", AtLeast: true, Watch: true},
	{Name: "net.ipv4.conf.all.arp_announce", Want: "2", AtLeast: true, Watch: true},
}

// SettingStore reads and changes settings of a kernel. Sysctls implements it for Linux.
type SettingStore interface {
	// Setting returns the value of a setting. If the kernel does not have it, the error is
	// fs.ErrNotExist.
	Setting(name string) (value string, err error)
	// Set changes a setting.
	Set(name, value string) error
}

// ApplySettings makes settings and returns them with the values that were found. Settings that the
// kernel lacks are left out, because they differ between kernel versions.
func ApplySettings(store SettingStore, settings []kernelmode.Setting) []kernelmode.Setting {
	var out []kernelmode.Setting
	for _, s := range settings {
		found, err := store.Setting(s.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		s.Before, s.Err = found, err
		if err == nil && !s.Holds() {
			s.Err = store.Set(s.Name, s.Want)
		}
		out = append(out, s)
	}
	return out
}

// Sysctls are the settings in the namespace of the calling thread.
type Sysctls struct{}

// Setting implements SettingStore.
func (Sysctls) Setting(name string) (string, error) {
	found, err := os.ReadFile(sysctlPath(name))
	return strings.TrimSpace(string(found)), err
}

// Set implements SettingStore.
func (Sysctls) Set(name, value string) error {
	return os.WriteFile(sysctlPath(name), []byte(value), 0)
}

// sysctlPath returns the file of a setting.
func sysctlPath(name string) string {
	return filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
}

// Version returns the kernel's version, such as 6, 1.
func Version() (major, minor int) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return 0, 0
	}
	return parseVersion(unix.ByteSliceToString(u.Release[:]))
}

func parseVersion(release string) (major, minor int) {
	first, rest, _ := strings.Cut(release, ".")
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		rest = rest[:i]
	}
	major, _ = strconv.Atoi(first) // 0: unknown
	minor, _ = strconv.Atoi(rest)
	return major, minor
}
