package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"portolan.dev/services/kit/rpc"

	registryv1 "portolan.dev/api/registry/v1"
)

// printer writes messages to the user. The daemons' logs go elsewhere.
type printer struct {
	mu sync.Mutex
	w  io.Writer
}

func (p *printer) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.w, format+"\n", args...)
}

// announceReady waits until every daemon is ready and the only node has sent a heartbeat. It then
// prints that the installation is ready, or runs the example if there is one.
func (i *Installation) announceReady(ctx context.Context) error {
	started := time.Now()
	conn, err := rpc.Network(i.network).Dial(i.options.addr(registryPort))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := i.poll(ctx, func() error { return i.ready(ctx, conn) }); err != nil {
		return nil // stopped before it was ready
	}
	if i.options.Example != "" {
		return i.example(ctx, conn, started)
	}
	i.printReady(started)
	<-ctx.Done()
	return nil
}

func (i *Installation) printReady(started time.Time) {
	i.out.printf("portolan ready after %d ms: registry %s, names %s, services %s, data in %s", time.Since(started).Milliseconds(),
		i.options.addr(registryPort), i.options.DNSAddr, join(i.options.ServiceCIDR), i.options.DataDir)
	i.out.printf("Kubernetes' API at %s: kubectl --kubeconfig %s get services", i.options.addr(kubeapiPort), i.options.kubeconfig())
	i.out.printf("names for the programs of this machine: portolan dns system --nameserver %s --zone %s shows what to tell its resolver",
		i.options.DNSAddr, i.options.Zone)
}

func join(ranges []netip.Prefix) string {
	texts := make([]string, 0, len(ranges))
	for _, one := range ranges {
		texts = append(texts, one.String())
	}
	return strings.Join(texts, " and ")
}

// ready returns an error that names the first daemon that is not ready.
func (i *Installation) ready(ctx context.Context, conn grpc.ClientConnInterface) error {
	for name, checks := range i.health {
		if err := checks.Ready(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	agents, err := registryv1.NewAgentServiceClient(conn).ListAgents(ctx, &registryv1.ListAgentsRequest{})
	if err != nil {
		return err
	}
	nodes, err := registryv1.NewNodeServiceClient(conn).ListNodes(ctx, &registryv1.ListNodesRequest{})
	if err != nil {
		return err
	}
	switch {
	case len(agents.GetAgents()) == 0:
		return errors.New("the node agent has not been heard of")
	case len(nodes.GetNodes()) == 0:
		return errors.New("the node is not registered")
	}
	return nil
}

// Intervals of poll: between two checks, and between two messages about the missing part.
const (
	checkInterval  = 10 * time.Millisecond
	reportInterval = 5 * time.Second
)

// poll checks until missing returns nil or ctx ends.
func (i *Installation) poll(ctx context.Context, missing func() error) error {
	look := time.NewTicker(checkInterval)
	defer look.Stop()
	for told := time.Now(); ; {
		err := missing()
		if err == nil {
			return nil
		}
		if time.Since(told) > reportInterval {
			told = time.Now()
			i.out.printf("waiting: %v", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
}
