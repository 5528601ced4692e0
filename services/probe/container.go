package probe

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	corev1 "portolan.dev/api/core/v1"
)

// New returns the check of a container's readiness probe that connects to a port, at the address of
// its pod. It returns an error for a probe without a port, with the name of a port that the container
// lacks, or of a pod without an address.
func New(c *corev1.Container, ip string) (Check, error) {
	p := c.GetReadinessProbe()
	switch {
	case p.GetExec() != nil, p.GetTtl() != nil:
		return nil, errors.New("only the node agent of the pod makes exec checks and takes the reports of ttl checks")
	case ip == "":
		return nil, errors.New("the pod has no address")
	case p.GetTcpSocket() != nil:
		port, err := portOf(c, p.GetTcpSocket().GetPort())
		return TCP(net.JoinHostPort(cmp.Or(p.GetTcpSocket().GetHost(), ip), port)), err
	case p.GetHttpGet() != nil:
		port, err := portOf(c, p.GetHttpGet().GetPort())
		return HTTP(getOf(p.GetHttpGet(), ip, port)), err
	case p.GetGrpc() != nil:
		port := strconv.Itoa(int(p.GetGrpc().GetPort()))
		return GRPC(net.JoinHostPort(ip, port), p.GetGrpc().GetService()), nil
	}
	return nil, fmt.Errorf("the probe of container %q asks nothing", c.GetName())
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

// getOf returns the request of a container's probe.
func getOf(a *corev1.HTTPGetAction, ip, port string) Get {
	path := a.GetPath()
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	scheme := strings.ToLower(cmp.Or(a.GetScheme(), "http"))
	get := Get{URL: scheme + "://" + net.JoinHostPort(cmp.Or(a.GetHost(), ip), port) + path, Header: http.Header{}}
	for _, h := range a.GetHttpHeaders() {
		if strings.EqualFold(h.GetName(), "Host") {
			get.Host = h.GetValue()
			continue
		}
		get.Header.Add(h.GetName(), h.GetValue())
	}
	return get
}
