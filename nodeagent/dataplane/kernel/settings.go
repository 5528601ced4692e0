package kernel

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
	Name   string // as sysctl calls it, such as net.ipv4.ip_forward
	Want   string
	Before string // what was found; empty: the kernel does not have it
	Err    error  // it could not be set
	// AtLeast: a number that may be larger.
	AtLeast bool
}

// String says what became of the setting.
func (s Setting) String() string {
	switch {
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
	{Name: "net.ipv4.ip_forward", Want: "1"},
	{Name: "net.ipv6.conf.all.forwarding", Want: "1"},
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
	return list
}

// Settle makes settings in the namespace of the calling thread and tells of
// each what it was. A setting that the kernel does not have is left out: older
// and newer kernels differ.
func Settle(settings []Setting) []Setting {
	var out []Setting
	for _, s := range settings {
		path := filepath.Join("/proc/sys", strings.ReplaceAll(s.Name, ".", "/"))
		found, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		s.Before, s.Err = strings.TrimSpace(string(found)), err
		if err == nil && !s.holds() {
			s.Err = os.WriteFile(path, []byte(s.Want), 0)
		}
		out = append(out, s)
	}
	return out
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
