package probe

import (
	"cmp"
	"net/netip"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/internal/script"
	"portolan.dev/services/object"
	"portolan.dev/services/probe"
)

// The kinds of checks, as values of the label kind.
const (
	kindTCP  = "tcp"
	kindHTTP = "http"
	kindGRPC = "grpc"
	kindExec = "exec"
	kindTTL  = "ttl"
)

// kindOf returns the kind of a check.
func kindOf(p *corev1.Probe) string {
	switch p.GetHandler().(type) {
	case *corev1.Probe_TcpSocket:
		return kindTCP
	case *corev1.Probe_HttpGet:
		return kindHTTP
	case *corev1.Probe_Grpc:
		return kindGRPC
	case *corev1.Probe_Exec:
		return kindExec
	case *corev1.Probe_Ttl:
		return kindTTL
	}
	return "none"
}

// newCheck returns the check for a container's probe at the address of its pod.
func (pp *podProber) newCheck(c *corev1.Container) (probe.Check, error) {
	if exec := c.GetReadinessProbe().GetExec(); exec != nil {
		return pp.prober.opts.Scripts.Check(exec.GetCommand(), script.Pod{Namespace: pp.key.Namespace, Name: pp.key.Name, IP: pp.addr}), nil
	}
	return probe.New(c, pp.addr)
}

// podAddr returns the address at which a pod is probed, or "" if it has none. A pod of the host
// network may lack an address of its own. It is probed at the node's main address, as by kubelet:
// a program that listens on loopback only is not ready, because no client reaches it.
func (p *Prober) podAddr(pod *corev1.Pod) string {
	var ip string
	if ips := object.PodIPs(pod); len(ips) > 0 {
		ip = ips[0]
	} else if pod.GetSpec().GetHostNetwork() {
		ip = cmp.Or(pod.GetStatus().GetHostIp(), p.opts.NodeAddress())
	}
	if _, err := netip.ParseAddr(ip); err != nil {
		return ""
	}
	return ip
}

// timing is the timing of a probe with defaults filled in.
type timing struct {
	delay, timeout, period time.Duration
	successes, failures    int
}

func timingOf(p *corev1.Probe) timing {
	seconds := func(n, otherwise int32) time.Duration {
		if n <= 0 {
			n = otherwise
		}
		return time.Duration(n) * time.Second
	}
	count := func(n, otherwise int32) int {
		if n <= 0 {
			n = otherwise
		}
		return int(n)
	}
	return timing{
		delay:   seconds(p.GetInitialDelaySeconds(), 0),
		timeout: seconds(p.GetTimeoutSeconds(), 1), period: seconds(p.GetPeriodSeconds(), 10),
		successes: count(p.GetSuccessThreshold(), 1), failures: count(p.GetFailureThreshold(), 3),
	}
}
