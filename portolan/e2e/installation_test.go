package e2e

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"
	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/internal/loopbacktest"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/token"
)

// installation is a running `portolan dev`, with methods to use it.
type installation struct {
	*testing.T
	network loopbacktest.Network
	dataDir string
	process *process
}

// install starts an installation and waits until it is ready.
func install(t *testing.T) *installation {
	t.Helper()
	i := &installation{T: t, network: loopbacktest.Claim(t), dataDir: t.TempDir()}
	i.startDev()
	return i
}

func (i *installation) startDev(args ...string) {
	i.Helper()
	i.process = start(i.T, "dev", append([]string{
		"dev", "--data-dir", i.dataDir, "--bind", i.network.Bind(), "--service-cidr", i.network.Services(), "--pod-cidr", i.network.Pods(),
		"--dns-addr", i.network.DNS(), "--load-balancer-cidr", i.network.Balancers(),
	}, args...)...)
	i.process.await("portolan ready")
}

// stop stops the installation as Ctrl-C does.
func (i *installation) stop() {
	i.Helper()
	if err := i.process.signal(syscall.SIGINT); err != nil {
		i.Fatalf("dev did not stop cleanly: %v", err)
	}
}

// restart stops the installation, and starts it on the same data.
func (i *installation) restart() {
	i.Helper()
	i.stop()
	i.startDev()
}

// api returns the address of a daemon's gRPC API.
func (i *installation) api(port int) string { return i.network.Addr("0.1", port) }

func (i *installation) dial(port int) *grpc.ClientConn {
	i.Helper()
	secret, err := token.Read(i.tokenFile())
	if err != nil {
		i.Fatal(err)
	}
	conn, err := rpc.TCP().Dial(i.api(port), grpc.WithPerRPCCredentials(secret))
	if err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() { _ = conn.Close() })
	return conn
}

// tokenFile returns the file of the token that clients send.
func (i *installation) tokenFile() string { return filepath.Join(i.dataDir, "token") }

// addresses returns the flags with the addresses of the daemons, and the token if portolan dev runs
// them.
func (i *installation) addresses(command string) []string {
	flags := []string{"--server", i.api(7400)}
	if i.dataDir != "" {
		flags = append(flags, "--token-file", i.tokenFile())
	}
	switch command {
	case "run":
		flags = append(flags, "--allocator", i.api(7401))
	case "explain":
		flags = append(flags, "--allocator", i.api(7401), "--endpointctl", i.api(7402), "--dnssvc", i.api(7403))
	}
	return flags
}

// try runs a command of the command line.
func (i *installation) try(stdin string, args ...string) (stdout, stderr string, err error) {
	i.Helper()
	return runProgram(i.T, stdin, filepath.Join(bin, "portolan"), append(args[:1:1], append(i.addresses(args[0]), args[1:]...)...)...)
}

// portolan runs a command that must succeed.
func (i *installation) portolan(args ...string) string {
	i.Helper()
	out, errOut, err := i.try("", args...)
	if err != nil {
		i.Fatalf("portolan %s: %v\n%s%s", strings.Join(args, " "), err, out, errOut)
	}
	return out
}

// apply applies a manifest, which must succeed.
func (i *installation) apply(manifest string) string {
	i.Helper()
	out, errOut, err := i.try(manifest, "apply", "-f", "-")
	if err != nil {
		i.Fatalf("apply: %v\n%s%s", err, out, errOut)
	}
	return out
}

// backend runs a program as a pod and waits until it is registered.
func (i *installation) backend(name string, flagsAndCommand ...string) *process {
	i.Helper()
	args := append([]string{"run", "--name", name}, i.addresses("run")...)
	p := start(i.T, name, append(args, flagsAndCommand...)...)
	p.await("pod default/" + name + " runs")
	return p
}

// hello runs the example backend.
func (i *installation) hello(name, labels, portName string, port int, flags ...string) *process {
	i.Helper()
	args := []string{"-l", labels, "--port", fmt.Sprintf("%s=%d", portName, port), "--ready-http", fmt.Sprintf("%d/healthz", port), "--drain-delay", "0s"}
	return i.backend(name, slices.Concat(args, flags, []string{"--", filepath.Join(bin, "portolan"), "hello", "--port", fmt.Sprint(port)})...)
}

// vip returns a service's virtual IP.
func (i *installation) vip(name string) string { return i.service(name).GetSpec().GetClusterIp() }

// awaitBackends waits until the node forwards every port of a service to n backends.
func (i *installation) awaitBackends(service string, n int) {
	i.Helper()
	agent := nodeagentv1.NewNodeAgentServiceClient(i.dial(7404))
	kittest.Eventually(i.T, fmt.Sprintf("%s forwards to %d backends", service, n), func() error {
		plan, err := agent.GetPlan(i.Context(), &nodeagentv1.GetPlanRequest{Namespace: "default", Name: service})
		if err != nil {
			return err
		}
		if len(plan.GetVirtualServers()) == 0 {
			return fmt.Errorf("no virtual servers")
		}
		for _, server := range plan.GetVirtualServers() {
			if used := rollout.UsedBackends(server); used != n || !server.GetProgrammed() {
				return fmt.Errorf("%s:%d has %d backends in use, programmed %v %s", server.GetAddress(), server.GetPort(), used, server.GetProgrammed(), server.GetError())
			}
		}
		return nil
	})
}

// ask asks the name server by UDP.
func (i *installation) ask(name string, qtype uint16) *dns.Msg {
	i.Helper()
	question := new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype)
	question.RecursionDesired = false
	answer, _, err := (&dns.Client{Timeout: patience}).ExchangeContext(i.Context(), question, i.network.DNS())
	if err != nil {
		i.Fatalf("ask %s: %v", name, err)
	}
	return answer
}

// awaitAnswer waits until the name server's answer satisfies check.
func (i *installation) awaitAnswer(name string, qtype uint16, check func(*dns.Msg) error) {
	i.Helper()
	kittest.Eventually(i.T, name+" "+dns.TypeToString[qtype], func() error { return check(i.ask(name, qtype)) })
}

// answers returns a check for exactly these records, in any order. Each is given as the end of its
// presentation format.
func answers(want ...string) func(*dns.Msg) error {
	return func(m *dns.Msg) error {
		if m.Rcode != dns.RcodeSuccess || len(m.Answer) != len(want) {
			return fmt.Errorf("%s with %d records, want %v: %v", dns.RcodeToString[m.Rcode], len(m.Answer), want, m.Answer)
		}
		for _, end := range want {
			found := false
			for _, record := range m.Answer {
				found = found || strings.HasSuffix(strings.ReplaceAll(record.String(), "\t", " "), " "+end)
			}
			if !found {
				return fmt.Errorf("no record ends in %q: %v", end, m.Answer)
			}
		}
		return nil
	}
}

func rcode(want int) func(*dns.Msg) error {
	return func(m *dns.Msg) error {
		if m.Rcode != want {
			return fmt.Errorf("%s, want %s", dns.RcodeToString[m.Rcode], dns.RcodeToString[want])
		}
		return nil
	}
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, fmt.Sprint(port)) }

func (i *installation) service(name string) *corev1.Service {
	i.Helper()
	got, err := registryv1.NewServiceServiceClient(i.dial(7400)).GetService(i.Context(), &registryv1.GetServiceRequest{Name: name})
	if err != nil {
		i.Fatal(err)
	}
	return got.GetService()
}

func (i *installation) pod(name string) *corev1.Pod {
	i.Helper()
	got, err := registryv1.NewPodServiceClient(i.dial(7400)).GetPod(i.Context(), &registryv1.GetPodRequest{Name: name})
	if err != nil {
		i.Fatal(err)
	}
	return got.GetPod()
}

func (i *installation) podIP(name string) string { return i.pod(name).GetStatus().GetPodIp() }
