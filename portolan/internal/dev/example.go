package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/portolan/internal/workload"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/manifest"
	"portolan.dev/services/object"
)

// exampleBackends is the number of backends of the example.
const exampleBackends = 3

// example applies the example's manifest and runs its backends until ctx ends.
func (i *Installation) example(ctx context.Context, registry grpc.ClientConnInterface, started time.Time) error {
	service, err := applyExample(ctx, client.New(registry), filepath.Join(i.options.Example, "service.yaml"))
	if err != nil {
		return fmt.Errorf("example: %w", err)
	}
	allocator, err := i.network.Dial(i.options.addr(allocatorPort))
	if err != nil {
		return err
	}
	defer func() { _ = allocator.Close() }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tasks := []app.Task{{Name: "example", Run: func(ctx context.Context) error { return i.presentExample(ctx, service, started) }}}
	for n := range exampleBackends {
		runner := &workload.Runner{Registry: registry, Allocator: allocator, Out: io.Discard, ErrOut: io.Discard, Options: workload.Options{
			Name: fmt.Sprintf("hello-%d", n+1), Labels: service.GetSpec().GetSelector(), Node: i.options.Node, Grace: 5 * time.Second, ServiceLinks: true,
			Ports: []string{"http=8080"}, ReadyHTTP: "8080/healthz", Command: []string{self, "hello"},
		}}
		tasks = append(tasks, app.Task{Name: runner.Options.Name, Run: runner.Run})
	}
	return app.RunTasks(ctx, tasks...)
}

func applyExample(ctx context.Context, registry *client.Client, path string) (*corev1.Service, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	documents, err := manifest.Decode(file, path)
	if err != nil {
		return nil, err
	}
	var service *corev1.Service
	for _, document := range documents {
		applied, err := registry.Apply(ctx, document.Object, false)
		if err != nil {
			return nil, err
		}
		if found, ok := object.Unwrap(applied.GetObject()).(*corev1.Service); ok {
			service = found
		}
	}
	if service == nil {
		return nil, errors.New(path + " has no Service")
	}
	return service, nil
}

// presentExample waits until the example's service has its backends, and prints commands to try.
func (i *Installation) presentExample(ctx context.Context, service *corev1.Service, started time.Time) error {
	agent, err := i.network.Dial(i.options.addr(nodeagentPort))
	if err != nil {
		return err
	}
	defer func() { _ = agent.Close() }()
	meta := service.GetMetadata()
	request := &nodeagentv1.GetPlanRequest{Namespace: meta.GetNamespace(), Name: meta.GetName()}
	err = i.poll(ctx, func() error {
		plan, err := nodeagentv1.NewNodeAgentServiceClient(agent).GetPlan(ctx, request)
		if err != nil {
			return err
		}
		return checkBackends(plan, exampleBackends)
	})
	if err == nil {
		i.printReady(started)
		i.printCommands(service)
	}
	<-ctx.Done()
	return nil
}

// checkBackends returns an error unless the plan forwards to n backends.
func checkBackends(plan *nodeagentv1.GetPlanResponse, n int) error {
	for _, server := range plan.GetVirtualServers() {
		if rollout.UsedBackends(server) >= n && server.GetProgrammed() {
			return nil
		}
		if server.GetError() != "" {
			return errors.New(server.GetError())
		}
	}
	return fmt.Errorf("the example does not have %d backends yet", n)
}

func (i *Installation) printCommands(service *corev1.Service) {
	meta, port := service.GetMetadata(), service.GetSpec().GetPorts()[0].GetPort()
	secret := TokenFile(i.options.DataDir)
	i.out.printf(`
Try, in another terminal:

  curl -s http://%s/
  dig +short @%s -p %d %s.%s.svc.%s
  TOKEN=$(cat %s) grpcurl -plaintext -expand-headers -H 'authorization: Bearer ${TOKEN}' %s portolan.registry.v1.ServiceService/ListServices
  kubectl --kubeconfig %s get services,endpointslices,pods
  %s --server %s --token-file %s explain service %s

Ctrl-C stops everything; %s keeps what was applied.`,
		net.JoinHostPort(service.GetSpec().GetClusterIp(), strconv.Itoa(int(port))),
		i.options.DNSAddr.Addr(), i.options.DNSAddr.Port(), meta.GetName(), meta.GetNamespace(), i.options.Zone,
		secret, i.options.addr(registryPort), i.options.kubeconfig(), os.Args[0], i.options.addr(registryPort), secret, meta.GetName(), i.options.DataDir)
}
