package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Setting is a setting of the kernel that forwarding depends on.
type Setting struct {
	Name   string // in sysctl's form, such as net.ipv4.ip_forward
	Want   string
	Before string // the value that was found; empty: the kernel lacks the setting
	Err    error  // the error of setting it
	// AtLeast allows a number larger than Want.
	AtLeast bool
	// Watch makes every audit restore the setting if another program has changed it.
	Watch bool
	// Remedy is set for a setting that the plane does not change. It describes the effect on
	// traffic and the advice for operators.
	Remedy string
}

// String describes the setting and its result.
func (s Setting) String() string {
	switch {
	case s.Remedy != "":
		return fmt.Sprintf("%s is %s: %s", s.Name, s.Before, s.Remedy)
	case s.Err != nil:
		return fmt.Sprintf("%s is %s, should be %s: %v", s.Name, s.Before, s.Want, s.Err)
	case s.Holds():
		return fmt.Sprintf("%s is %s", s.Name, s.Before)
	}
	return fmt.Sprintf("%s set to %s, was %s", s.Name, s.Want, s.Before)
}

// Holds reports whether the value that was found satisfies Want.
func (s Setting) Holds() bool {
	if !s.AtLeast {
		return s.Before == s.Want
	}
	before, err := strconv.ParseUint(s.Before, 10, 64)
	want, err2 := strconv.ParseUint(s.Want, 10, 64)
	return err == nil && err2 == nil && before >= want
}

// Forwarding are the settings that every plane in the kernel needs.
var Forwarding = []Setting{
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
var StrictARP = []Setting{
	{Name: "net.ipv4.conf.all.arp_ignore", Want: "1", AtLeast: true, Watch: true},
	{Name: "net.ipv4.conf.all.arp_announce", Want: "2", AtLeast: true, Watch: true},
}

// Timeouts are the times for which a balancer keeps idle connections, in whole seconds. Zero leaves
// the kernel's value.
type Timeouts struct{ TCP, TCPFin, UDP time.Duration }

// Tracking configures connection tracking, with kube-proxy's meaning. Zero leaves the kernel's
// value.
type Tracking struct {
	// MaxPerCore is the number of connections that can be tracked for each processor, Min the
	// lowest total. A larger number in the kernel stays.
	MaxPerCore, Min int
	// Established and CloseWait are the times for which a TCP connection in these states is kept,
	// in whole seconds.
	Established, CloseWait time.Duration
	// Liberal makes TCP segments outside of their window valid, so that they are not dropped. False
	// leaves the kernel's setting.
	Liberal bool
}

// bucketSize is the intended number of connections in a bucket of the kernel's table.
const bucketSize = 4

// Settings returns the settings for a machine with a number of processors.
func (t Tracking) Settings(processors int) []Setting {
	var list []Setting
	if t.MaxPerCore > 0 {
		most := max(t.MaxPerCore*processors, t.Min)
		list = append(list,
			Setting{Name: "net.netfilter.nf_conntrack_max", Want: strconv.Itoa(most), AtLeast: true},
			Setting{Name: "net.netfilter.nf_conntrack_buckets", Want: strconv.Itoa(most / bucketSize), AtLeast: true})
	}
	for _, it := range []struct {
		state   string
		timeout time.Duration
	}{{"established", t.Established}, {"close_wait", t.CloseWait}} {
		if it.timeout > 0 {
			list = append(list, Setting{Name: "net.netfilter.nf_conntrack_tcp_timeout_" + it.state, Want: strconv.Itoa(int(it.timeout / time.Second))})
		}
	}
	if t.Liberal {
		list = append(list, Setting{Name: "net.netfilter.nf_conntrack_tcp_be_liberal", Want: "1"})
	}
	return list
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
func ApplySettings(store SettingStore, settings []Setting) []Setting {
	var out []Setting
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
