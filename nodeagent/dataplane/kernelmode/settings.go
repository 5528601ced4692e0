package kernelmode

import (
	"fmt"
	"strconv"
	"time"
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
