package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Limits of answers, in bytes, because any program may be behind a pod's port.
const (
	maxHeader = 64 << 10
	maxBody   = 10 << 10 // a longer body is not read to its end
	maxReason = 1 << 10  // of a failed check
)

// checkFunc runs one check. It returns an error if the check fails.
type checkFunc func(ctx context.Context) error

// shortened returns a check whose errors are at most maxReason long. They may contain parts of the
// answer, such as its status line.
func (check checkFunc) shortened() checkFunc {
	return func(ctx context.Context) error {
		err := check(ctx)
		if err == nil || len(err.Error()) <= maxReason {
			return err
		}
		return errors.New(strings.ToValidUTF8(err.Error()[:maxReason], ""))
	}
}

// newCheck returns the check for a container's probe.
func newCheck(pod *corev1.Pod, c *corev1.Container, p *corev1.Probe) (checkFunc, error) {
	ip, err := podAddr(pod)
	if err != nil {
		return nil, err
	}
	switch {
	case p.GetTcpSocket() != nil:
		port, err := portOf(c, p.GetTcpSocket().GetPort())
		return tcpCheck(net.JoinHostPort(cmp.Or(p.GetTcpSocket().GetHost(), ip), port)), err
	case p.GetHttpGet() != nil:
		port, err := portOf(c, p.GetHttpGet().GetPort())
		return httpCheck(p.GetHttpGet(), ip, port).shortened(), err
	case p.GetGrpc() != nil:
		port := strconv.Itoa(int(p.GetGrpc().GetPort()))
		return grpcCheck(net.JoinHostPort(ip, port), p.GetGrpc().GetService()).shortened(), nil
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

func tcpCheck(addr string) checkFunc {
	return func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// httpClient returns a client that opens a new connection for every check, because a connection
// that is kept could belong to a program that has been replaced since.
func httpClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: maxHeader,
			TLSClientConfig:        &tls.Config{InsecureSkipVerify: true}, // #nosec G402 -- the contract: certificates of probes are not verified
		},
		CheckRedirect: sameHostOnly,
	}
}

// sameHostOnly follows redirects within the pod. A redirect to another host is the final answer,
// and counts as a success.
func sameHostOnly(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 || req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	return nil
}

func httpCheck(a *corev1.HTTPGetAction, ip, port string) checkFunc {
	client := httpClient()
	host := cmp.Or(a.GetHost(), ip)
	path := a.GetPath()
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	url := strings.ToLower(cmp.Or(a.GetScheme(), "http")) + "://" + net.JoinHostPort(host, port) + path
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		req.Header.Set("User-Agent", "portolan-probe/1")
		req.Header.Set("Accept", "*/*")
		for _, h := range a.GetHttpHeaders() {
			if strings.EqualFold(h.GetName(), "Host") {
				req.Host = h.GetValue()
				continue
			}
			req.Header.Add(h.GetName(), h.GetValue())
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxBody)) // used in the message only
		if res.StatusCode < 200 || res.StatusCode >= 400 {
			return fmt.Errorf("GET %s: %s: %s", path, res.Status, firstLine(body))
		}
		return nil
	}
}

func firstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	return line[:min(len(line), 200)]
}

func grpcCheck(addr, service string) checkFunc {
	return func(ctx context.Context) error {
		conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("portolan-probe/1"),
			grpc.WithMaxHeaderListSize(maxHeader), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxBody)))
		if err != nil {
			return err
		}
		defer conn.Close()
		res, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			return err
		}
		if s := res.GetStatus(); s != healthpb.HealthCheckResponse_SERVING {
			return fmt.Errorf("service %q is %s", service, s)
		}
		return nil
	}
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
