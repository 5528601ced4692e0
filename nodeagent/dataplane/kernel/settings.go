package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Setting is a setting of the kernel that forwarding depends on.
type Setting struct {
	Name   string // as sysctl calls it, such as net.ipv4.ip_forward
	Want   string
	Before string // what was found; empty: the kernel does not have it
	Err    error  // it could not be set
	// AtLeast: a number that may be larger.
	AtLeast bool
	// Watch: every audit makes the setting again if somebody has changed it.
	Watch bool
	// Remedy is of a setting that the plane leaves alone: what it does to traffic,
	// and what a person can do about it.
	Remedy string
}

// String says what became of the setting.
func (s Setting) String() string {
	switch {
	case s.Remedy != "":
		return fmt.Sprintf("%s is %s: %s", s.Name, s.Before, s.Remedy)
	case s.Err != nil:
		return fmt.Sprintf("%s is %s, should be %s: %v", s.Name, s.Before, s.Want, s.Err)
	case s.holds():
		return fmt.Sprintf("%s is %s", s.Name, s.Before)
	}
	return fmt.Sprintf("%s set to %s, was %s", s.Name, s.Want, s.Before)
}

// holds tells whether what was found is what is wanted.
func (s Setting) holds() bool {
	if !s.AtLeast {
		return s.Before == s.Want
	}
	before, err := strconv.ParseUint(s.Before, 10, 64)
	want, err2 := strconv.ParseUint(s.Want, 10, 64)
	return err == nil && err2 == nil && before >= want
}

// Forwarding is what every plane in the kernel needs.
var Forwarding = []Setting{
	{Name: "net.ipv4.ip_forward", Want: "1", Watch: true},
	{Name: "net.ipv6.conf.all.forwarding", Want: "1", Watch: true},
}

// strictARP keeps the node from answering ARP requests for addresses that no
// device of it has, and from asking by ARP in the name of one: virtual addresses
// are local by a route, on all nodes alike, and the network would see them all as
// owners. IPv6 neighbours are told of addresses of devices only.
//
// An ARP table of nftables could do the same for virtual addresses alone. It was
// not taken since older kernels and some distributions have none, and since these
// settings are what load balancers in the network tell people to make.
var strictARP = []Setting{
	{Name: "net.ipv4.conf.all.arp_ignore", Want: "1", AtLeast: true, Watch: true},
	{Name: "net.ipv4.conf.all.arp_announce", Want: "2", AtLeast: true, Watch: true},
}

// Timeouts are how long a balancer keeps connections on which nothing happens, in
// whole seconds. A zero leaves the kernel's as it is.
type Timeouts struct{ TCP, TCPFin, UDP time.Duration }

// Tracking is about connection tracking, with kube-proxy's meaning. A zero leaves
// the kernel's as it is.
type Tracking struct {
	// MaxPerCore connections may be tracked for each processor, but Min at least;
	// more if the machine is set so.
	MaxPerCore, Min int
	// Established and CloseWait are how long a TCP connection in these states is
	// kept, in whole seconds.
	Established, CloseWait time.Duration
	// Liberal: TCP segments outside of their window are valid, and so are not
	// dropped. False leaves the kernel's setting as it is.
	Liberal bool
}

// bucketSize is how many connections a bucket of the kernel's table is meant for.
const bucketSize = 4

func (t Tracking) settings(processors int) []Setting {
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

// Settle makes settings in the namespace of the calling thread and tells of
// each what it was. A setting that the kernel does not have is left out: older
// and newer kernels differ.
func Settle(settings []Setting) []Setting { return settle(linux{}, settings) }

// settle makes settings on a host, see Settle.
func settle(h Host, settings []Setting) []Setting {
	var out []Setting
	for _, s := range settings {
		found, err := h.Setting(s.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		s.Before, s.Err = found, err
		if err == nil && !s.holds() {
			s.Err = h.Set(s.Name, s.Want)
		}
		out = append(out, s)
	}
	return out
}

// sysctlPath is the file of a setting.
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
