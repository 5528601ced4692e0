package probe

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
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
	p, ip := c.GetReadinessProbe(), pp.addr
	if p.GetExec() != nil {
		return pp.prober.opts.Scripts.Check(p.GetExec().GetCommand(), script.Pod{Namespace: pp.key.Namespace, Name: pp.key.Name, IP: ip}), nil
	}
	if ip == "" {
		return nil, errors.New("the pod has no address")
	}
	switch {
	case p.GetTcpSocket() != nil:
		port, err := portOf(c, p.GetTcpSocket().GetPort())
		return probe.TCP(net.JoinHostPort(cmp.Or(p.GetTcpSocket().GetHost(), ip), port)), err
	case p.GetHttpGet() != nil:
		port, err := portOf(c, p.GetHttpGet().GetPort())
		return probe.HTTP(httpGet(p.GetHttpGet(), ip, port)), err
	case p.GetGrpc() != nil:
		port := strconv.Itoa(int(p.GetGrpc().GetPort()))
		return probe.GRPC(net.JoinHostPort(ip, port), p.GetGrpc().GetService()), nil
	}
	return nil, fmt.Errorf("the probe of container %q asks nothing", c.GetName())
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

func portOf(c *corev1.Container, port *corev1.IntOrString) (string, error) {
	name := port.GetName()
	if name == "" {
		return strconv.Itoa(int(port.GetNumber())), nil
	}
	for _, p := range c.GetPorts() {
		if p.GetName() == name {
			return strconv.Itoa(int(p.GetContainerPort())), nil
		}
	}
	return "", fmt.Errorf("container %q has no port %q", c.GetName(), name)
}

// httpGet returns the request of a container's probe.
func httpGet(a *corev1.HTTPGetAction, ip, port string) probe.Get {
	path := a.GetPath()
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	scheme := strings.ToLower(cmp.Or(a.GetScheme(), "http"))
	get := probe.Get{URL: scheme + "://" + net.JoinHostPort(cmp.Or(a.GetHost(), ip), port) + path, Header: http.Header{}}
	for _, h := range a.GetHttpHeaders() {
		if strings.EqualFold(h.GetName(), "Host") {
			get.Host = h.GetValue()
			continue
		}
		get.Header.Add(h.GetName(), h.GetValue())
	}
	return get
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
