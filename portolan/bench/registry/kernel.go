package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/services/kit/yardstick"
	"portolan.dev/services/object"
)

// ownNamespace is the environment variable that marks the process in its own network namespace.
const ownNamespace = "PORTOLAN_BENCH_NAMESPACE"

// backendAddr is the address of the pods, on the loopback device of the namespace.
const backendAddr = "10.128.0.1"

// measureKernel measures the time from the commit of a service's endpoint in a registry on
// Postgres, through the log, the relay, NATS and a node agent, to the first connection through
// nftables. It needs root. It runs in a process with its own network namespace, so that it leaves
// nothing behind in the machine's packet filter.
func (b *bench) measureKernel(ctx context.Context) error {
	if os.Getenv(ownNamespace) == "" {
		return b.inNamespace(ctx, "kernel")
	}
	for _, args := range [][]string{{"link", "set", "lo", "up"}, {"addr", "add", backendAddr + "/32", "dev", "lo"}} {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", backendAddr+":8080")
	if err != nil {
		return err
	}
	b.rig.Defer(func() { _ = lis.Close() })
	go acceptAll(lis)
	i, err := b.install(ctx, "kernel", nil)
	if err != nil {
		return err
	}
	_, err = i.StartFollower(ctx, "nodeagent", "-node-name", "here", "-node-addresses", backendAddr,
		"-proxy-mode", "nftables", "-strict", "-service-cidr", rig.ServiceCIDR, "-pod-cidr", "10.128.0.0/16", "-data-dir", filepath.Join(b.rig.Dir, "nodeagent"))
	if err != nil {
		return err
	}
	count := 200
	if b.Quick {
		count = 50
	}
	var times []time.Duration
	for n := range count + 1 {
		took, err := i.untilConnected(ctx, fmt.Sprintf("kernel-%d", n))
		if err != nil {
			return err
		}
		if n > 0 { // the first waits until the agent has its snapshot
			times = append(times, took)
		}
	}
	b.rig.Ratio("commit_to_kernel_p50_ms", rig.Quantile(times, 50), yardstick.Target{})
	b.rig.Ratio("commit_to_kernel_p99_ms", rig.Quantile(times, 99), yardstick.AtMost(50))
	i.Stop()
	return nil
}

// inNamespace runs one part in a process with its own network namespace, and takes over its output.
func (b *bench) inNamespace(ctx context.Context, part string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "-only", part, "-bin", b.rig.Bin, fmt.Sprintf("-quick=%t", b.Quick))
	cmd.Env = append(os.Environ(), ownNamespace+"=1")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	// The process is interrupted rather than killed, because it must stop its own child processes.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) {
		fmt.Printf("\n%s: not measured, because it needs root\n", part)
		return nil
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "ratio ") {
			b.rig.Keep(strings.TrimSpace(line))
		}
	}
	return err
}

// acceptAll accepts connections and closes them.
func acceptAll(lis net.Listener) {
	for {
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

// untilConnected gives a service an endpoint. It returns the time from the commit until a
// connection to the service's virtual IP succeeds. Until then the node refuses connections. The
// client sees the commit when its call returns.
func (i *installation) untilConnected(ctx context.Context, name string) (time.Duration, error) {
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	created, err := i.services().CreateService(waiting, &registryv1.CreateServiceRequest{Service: service(name, "")})
	if err != nil {
		return 0, err
	}
	target := net.JoinHostPort(created.GetService().GetSpec().GetClusterIp(), "80")
	connected := make(chan error, 1)
	var at time.Time
	go func() {
		err := connect(waiting, target)
		at = time.Now()
		connected <- err
	}()
	ready, portName, port := true, "http", int32(8080)
	_, err = registryv1.NewEndpointSliceServiceClient(i.Conn).CreateEndpointSlice(waiting, &registryv1.CreateEndpointSliceRequest{EndpointSlice: &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{object.LabelServiceName: name}},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports:       []*corev1.EndpointPort{{Name: &portName, Port: &port}},
		Endpoints:   []*corev1.Endpoint{{Addresses: []string{backendAddr}, Conditions: &corev1.EndpointConditions{Ready: &ready}}},
	}})
	returned := time.Now()
	if err != nil {
		cancel()
	}
	if err := errors.Join(err, <-connected); err != nil {
		return 0, err
	}
	return max(0, at.Sub(returned)), nil
}

// connect tries until a connection succeeds. An attempt that is neither refused nor accepted ends
// after a short timeout.
func connect(ctx context.Context, target string) error {
	dialer := &net.Dialer{Timeout: 20 * time.Millisecond}
	for ctx.Err() == nil {
		conn, err := dialer.DialContext(ctx, "tcp", target)
		if err == nil {
			return conn.Close()
		}
	}
	return fmt.Errorf("%s does not accept connections: %w", target, ctx.Err())
}
