package probe

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/probe"
)

// newCheck returns the check for a container's probe.
func newCheck(pod *corev1.Pod, c *corev1.Container, p *corev1.Probe) (probe.Check, error) {
	ip, err := podAddr(pod)
	if err != nil {
		return nil, err
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

// podAddr returns the address at which a pod is probed. A pod of the host network may lack an
// address of its own, because it is on the agent's node.
func podAddr(pod *corev1.Pod) (string, error) {
	var ip string
	if ips := object.PodIPs(pod); len(ips) > 0 {
		ip = ips[0]
	} else if pod.GetSpec().GetHostNetwork() {
		ip = cmp.Or(pod.GetStatus().GetHostIp(), "127.0.0.1")
	}
	if _, err := netip.ParseAddr(ip); err != nil {
		return "", fmt.Errorf("the pod has no address")
	}
	return ip, nil
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
