package kubeapi

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/services/kit/yardstick"
)

// measureList lists all services, and measures the time, the bytes, and the CPU time and the allocations
// of the servers.
func (b *bench) measureList(ctx context.Context) error {
	i, err := b.install(ctx)
	if err != nil {
		return err
	}
	defer i.Stop()
	ofKubeAPI := func(path, accept string) func() (int, error) {
		return func() (int, error) {
			body, err := i.get(ctx, path, accept)
			return len(body), err
		}
	}
	const path, protobuf = "/api/v1/services", "application/vnd.kubernetes.protobuf"
	lists := []struct {
		name string
		list func() (int, error)
	}{
		{"grpc", func() (int, error) { return i.listServices(ctx) }},
		{"json", ofKubeAPI(path, "application/json")},
		{"json, of the cache", ofKubeAPI(path+"?resourceVersion=0", "application/json")},
		{"protobuf", ofKubeAPI(path, protobuf)},
		{"protobuf, of the cache", ofKubeAPI(path+"?resourceVersion=0", protobuf)},
		{"table", ofKubeAPI(path, "application/json;as=Table;v=v1;g=meta.k8s.io")},
		{"metadata", ofKubeAPI(path, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")},
	}
	cpu := map[string][]float64{}
	for round := range b.rounds + 1 {
		for _, l := range lists {
			spent, err := i.cost(ctx, l.list)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			if round == 0 {
				continue // warms up
			}
			cpu[l.name] = append(cpu[l.name], float64(spent.registry+spent.kubeapi))
			fmt.Printf("list of %d services, %-22s %4.0f ms, %.1f MB; CPU: registry %.0f ms, kubeapi %.0f ms; kubeapi allocates %.1f MB\n", services, l.name+":",
				rig.Millis(spent.took), float64(spent.bytes)/1e6, rig.Millis(spent.registry), rig.Millis(spent.kubeapi), spent.allocated/1e6)
		}
	}
	for _, name := range []string{"json", "protobuf"} {
		b.rig.Ratio("list10k_cpu_"+name+"_vs_grpc", rig.Quotient(cpu[name], cpu["grpc"]), yardstick.Target{})
	}
	return nil
}

// listCost is the cost of a list.
type listCost struct {
	took, registry, kubeapi time.Duration // of the clock, and of CPU
	bytes                   int
	allocated               float64
}

// repeated is the number of lists per figure, because CPU time has a resolution of a hundredth of a second.
const repeated = 5

// cost lists several times.
func (i *installation) cost(ctx context.Context, list func() (int, error)) (c listCost, err error) {
	allocated, err := allocatedBytes(ctx, i.kubeapi)
	if err != nil {
		return c, err
	}
	began, registry, kubeapi := time.Now(), i.Registry.CPU(), i.kubeapi.CPU()
	for range repeated {
		if c.bytes, err = list(); err != nil {
			return c, err
		}
	}
	c.took, c.registry, c.kubeapi = time.Since(began)/repeated, (i.Registry.CPU()-registry)/repeated, (i.kubeapi.CPU()-kubeapi)/repeated
	then, err := allocatedBytes(ctx, i.kubeapi)
	c.allocated = (then - allocated) / repeated
	return c, err
}

func allocatedBytes(ctx context.Context, d *rig.Daemon) (float64, error) {
	values, err := d.Metrics(ctx)
	return values["go_memstats_alloc_bytes_total"], err
}

// listServices lists all services at the registry, by pages, and returns their bytes.
func (i *installation) listServices(ctx context.Context) (size int, err error) {
	request, found := &registryv1.ListServicesRequest{PageSize: 1000}, 0
	for {
		page, err := registryv1.NewServiceServiceClient(i.Conn).ListServices(ctx, request)
		if err != nil {
			return 0, err
		}
		size, found = size+proto.Size(page), found+len(page.GetServices())
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	if found != services {
		err = fmt.Errorf("%d services, want %d", found, services)
	}
	return size, err
}
