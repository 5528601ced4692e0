package cli

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// fakeAllocator has two pools. It answers changes with the pool as requested.
type fakeAllocator struct {
	allocatorv1.UnimplementedAllocatorServiceServer
	requests []proto.Message
}

func (f *fakeAllocator) ListPools(context.Context, *allocatorv1.ListPoolsRequest) (*allocatorv1.ListPoolsResponse, error) {
	return &allocatorv1.ListPoolsResponse{Pools: []*allocatorv1.Pool{
		{
			Name: "node-port", Use: allocatorv1.Use_USE_NODE_PORT, Range: "30000-32767", State: allocatorv1.PoolState_POOL_STATE_DRAINING,
			StaticBand: 86, Size: 3 * 2768, Used: 4, StaticUsed: 3, PerProtocol: true,
		},
		{
			Name: "service-ipv4", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "10.96.0.0/24", State: allocatorv1.PoolState_POOL_STATE_ACTIVE,
			StaticBand: 16, Size: 254, Used: 30, StaticUsed: 3, Resting: 2, Reserved: 20,
		},
	}}, nil
}

func (f *fakeAllocator) ListAllocations(_ context.Context, req *allocatorv1.ListAllocationsRequest) (*allocatorv1.ListAllocationsResponse, error) {
	f.requests = append(f.requests, req)
	confirmed, resting, reserved := allocatorv1.AllocationState_ALLOCATION_STATE_CONFIRMED, allocatorv1.AllocationState_ALLOCATION_STATE_RESTING, allocatorv1.AllocationState_ALLOCATION_STATE_RESERVED
	web := &allocatorv1.Owner{Uid: "u1", Kind: "Service", Namespace: "default", Name: "web"}
	resp := &allocatorv1.ListAllocationsResponse{NextPageToken: "more", Allocations: []*allocatorv1.Allocation{
		{Value: "10.96.0.1", Owner: web, Slot: "clusterIPs/IPv4", State: confirmed},
		{Value: "10.96.0.1", Owner: web, Slot: "repair/10.96.0.1", State: confirmed},
		{Value: "10.96.0.2", Owner: web, State: resting},
		{Value: "10.96.0.3", Owner: &allocatorv1.Owner{Kind: "Reserve", Name: "r1"}, Slot: "grant/1", State: reserved},
	}}
	for range 20 {
		resp.Allocations = append(resp.Allocations, &allocatorv1.Allocation{Value: "10.96.0.9", Owner: web, State: confirmed})
	}
	return resp, nil
}

func (f *fakeAllocator) CreatePool(_ context.Context, req *allocatorv1.CreatePoolRequest) (*allocatorv1.CreatePoolResponse, error) {
	f.requests = append(f.requests, req)
	return &allocatorv1.CreatePoolResponse{Pool: req.GetPool()}, nil
}

func (f *fakeAllocator) UpdatePool(_ context.Context, req *allocatorv1.UpdatePoolRequest) (*allocatorv1.UpdatePoolResponse, error) {
	f.requests = append(f.requests, req)
	return &allocatorv1.UpdatePoolResponse{Pool: req.GetPool()}, nil
}

func (f *fakeAllocator) DeletePool(_ context.Context, req *allocatorv1.DeletePoolRequest) (*allocatorv1.DeletePoolResponse, error) {
	f.requests = append(f.requests, req)
	return nil, apierr.Unavailable("the allocator is stopping", 0)
}

// serveAllocator serves an allocator and returns its address.
func serveAllocator(t *testing.T, f *fakeAllocator) string {
	t.Helper()
	log := kittest.Logger(t)
	server, lis := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log)}), kittest.Listen(t)
	allocatorv1.RegisterAllocatorServiceServer(server, f)
	kittest.Run(t, "allocator", func(ctx context.Context) error { return server.Serve(ctx, lis) })
	return lis.Addr().String()
}

// portolan runs a command with the address of an allocator.
func portolan(t *testing.T, address string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(t.Context(), append(args[:len(args):len(args)], "--allocator", address), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// TestPoolsAreShown compares the output of get and describe word by word.
func TestPoolsAreShown(t *testing.T) {
	address := serveAllocator(t, &fakeAllocator{})
	const (
		header  = "NAME USE RANGE STATE USED STATIC DYNAMIC AT-HAND RESTING"
		ports   = "node-port node-port 30000-32767 draining <0.1% 3/258 1/8046 0 0"
		service = "service-ipv4 cluster-ip 10.96.0.0/24 active 11.8% 3/16 27/238 20 2"
	)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"get", "pools"}, []string{header, ports, service}},
		{[]string{"get", "pool", "node-port", "-o", "wide"}, []string{header + " VALUES FREE", ports + " 8304 8300"}},
		{[]string{"get", "pool/service-ipv4", "-o", "wide"}, []string{header + " VALUES FREE", service + " 254 202"}},
		{[]string{"get", "Pools", "-o", "name"}, []string{"pool/node-port", "pool/service-ipv4"}},
		{[]string{"describe", "pool", "node-port"}, []string{
			"Name: node-port", "Use: node-port", "Range: 30000-32767", "Protocols: TCP, UDP and SCTP have numbers of their own",
			"State: draining: only values that are asked for are allocated", "Values: 8304, 4 in use (<0.1%), 8300 free",
			"Static band: 30000 - 30085: 3 of 258 in use; left to those who ask for a value, while others are free",
			"Dynamic band: 30086 - 32767: 1 of 8046 in use",
		}},
		{[]string{"describe", "pool", "service-ipv4"}, []string{
			"Name: service-ipv4", "Use: cluster-ip", "Range: 10.96.0.0/24", "State: active: values are allocated",
			"Values: 254, 30 in use (11.8%), 202 free",
			"Static band: 10.96.0.1 - 10.96.0.16: 3 of 16 in use; left to those who ask for a value, while others are free",
			"Dynamic band: 10.96.0.17 - 10.96.0.254: 27 of 238 in use",
			"At hand: 20 values in reserves of registries", "Resting: 2 values released lately",
			"Owners: Service: 2 values", "of the first 4 values only; there are more",
			"Allocations: 10.96.0.1 confirmed: Service default/web, clusterIPs/IPv4", "10.96.0.1 confirmed: Service default/web, repair/10.96.0.1",
			"10.96.0.9 confirmed: Service default/web,", // neither the resting value nor the value of a reserve
		}},
	} {
		code, out, errOut := portolan(t, address, c.args...)
		var lines []string
		for line := range strings.Lines(out) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		if code != 0 || len(lines) < len(c.want) || !slices.Equal(lines[:len(c.want)], c.want) {
			t.Errorf("%q: exit code %d %s\n%s\nwant\n%s", c.args, code, errOut, strings.Join(lines, "\n"), strings.Join(c.want, "\n"))
		}
	}
	if _, out, _ := portolan(t, address, "describe", "pool", "service-ipv4"); !strings.HasSuffix(strings.TrimSpace(out), "and more") || strings.Count(out, "\n") > 24 {
		t.Errorf("a pool with many allocations is described in full:\n%s", out)
	}
	for format, want := range map[string]string{"json": `"staticUsed": "3"`, "yaml": `staticUsed: "3"`} {
		if code, out, errOut := portolan(t, address, "get", "pools", "-o", format); code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "pools") {
			t.Errorf("-o %s: exit code %d, lacks %s\n%s%s", format, code, want, out, errOut)
		}
	}
}

// TestPoolsAreChanged checks the request of each command to the allocator, and its output.
func TestPoolsAreChanged(t *testing.T) {
	update := func(p *allocatorv1.Pool) proto.Message { return &allocatorv1.UpdatePoolRequest{Pool: p} }
	for _, c := range []struct {
		args []string
		want proto.Message
		out  string
	}{
		{
			[]string{"pool", "create", "more", "--use", "load-balancer-ip", "--range", "203.0.113.0/24", "--static-band", "32"},
			&allocatorv1.CreatePoolRequest{Pool: &allocatorv1.Pool{Name: "more", Use: allocatorv1.Use_USE_LOAD_BALANCER_IP, Range: "203.0.113.0/24", StaticBand: 32}},
			"pool/more created: 203.0.113.0/24",
		},
		{
			[]string{"pool", "create", "ports", "--use", "node-port", "--range", "40000-40099", "--per-protocol"},
			&allocatorv1.CreatePoolRequest{Pool: &allocatorv1.Pool{Name: "ports", Use: allocatorv1.Use_USE_NODE_PORT, Range: "40000-40099", PerProtocol: true}},
			"pool/ports created: 40000-40099",
		},
		{
			[]string{"pool", "create", "wide", "--use", "load-balancer-ip", "--range", "198.18.0.0/16", "--avoid-buggy-ips"},
			&allocatorv1.CreatePoolRequest{Pool: &allocatorv1.Pool{Name: "wide", Use: allocatorv1.Use_USE_LOAD_BALANCER_IP, Range: "198.18.0.0/16", AvoidBuggyIps: true}},
			"pool/wide created: 198.18.0.0/16",
		},
		{[]string{"pool", "resize", "more", "203.0.112.0/23"}, update(&allocatorv1.Pool{Name: "more", Range: "203.0.112.0/23"}), "pool/more resized: 203.0.112.0/23"},
		{[]string{"pool", "drain", "more"}, update(&allocatorv1.Pool{Name: "more", State: allocatorv1.PoolState_POOL_STATE_DRAINING}), "pool/more is draining"},
		{[]string{"pool", "activate", "more"}, update(&allocatorv1.Pool{Name: "more", State: allocatorv1.PoolState_POOL_STATE_ACTIVE}), "pool/more is active"},
		{[]string{"pool", "retire", "more", "-o", "json"}, update(&allocatorv1.Pool{Name: "more", State: allocatorv1.PoolState_POOL_STATE_RETIRED}), `"state": "POOL_STATE_RETIRED"`},
	} {
		f := &fakeAllocator{}
		code, out, errOut := portolan(t, serveAllocator(t, f), c.args...)
		if code != 0 || !strings.Contains(out, c.out) || len(f.requests) != 1 || !proto.Equal(f.requests[0], c.want) {
			t.Errorf("%q: exit code %d\n%s%s\nrequests %v, want %v and %q", c.args, code, out, errOut, f.requests, c.want, c.out)
		}
	}
}

// TestPoolErrors checks the errors that name a remedy, and that an error of the allocator itself is
// not taken for an allocator that is away.
func TestPoolErrors(t *testing.T) {
	f := &fakeAllocator{}
	address := serveAllocator(t, f)
	for _, c := range []struct {
		address string
		code    int
		args    []string
		want    string
	}{
		{"127.0.0.1:1", 1, []string{"get", "pools"}, "the allocator at 127.0.0.1:1 does not answer"},
		{"127.0.0.1:1", 1, []string{"pool", "drain", "x"}, "--allocator names another address"},
		{address, 1, []string{"get", "pool", "service-ip4"}, `pool "service-ip4" does not exist; did you mean service-ipv4?`},
		{address, 1, []string{"describe", "pool", "zzz"}, "See: portolan get pools"},
		{address, 1, []string{"pool", "delete", "x"}, "error: the allocator is stopping"},
		{address, 2, []string{"describe", "pool"}, "pool NAME"},
		{address, 2, []string{"get", "pool/a", "b"}, "one name too many"},
		{address, 2, []string{"get", "pools", "-w"}, "cannot be watched"},
		{address, 2, []string{"get", "pools", "-l", "a=b"}, "pools have no namespace, labels"},
		{address, 2, []string{"pool", "create", "x", "--range", "10.97.0.0/16"}, "uses are cluster-ip, node-port, load-balancer-ip, pod-ip"},
		{address, 2, []string{"pool", "create", "x", "--use", "node-port"}, "say which values"},
		{address, 2, []string{"pool", "resize", "x"}, "NAME RANGE"},
		{address, 2, []string{"pool", "drain", "x", "-o", "xml"}, "outputs are text, json, yaml"},
	} {
		code, out, errOut := portolan(t, c.address, append(c.args, "--timeout", "5s")...)
		if code != c.code || !strings.Contains(errOut, c.want) || out != "" {
			t.Errorf("%q: exit code %d, want %d and %q:\n%s%s", c.args, code, c.code, c.want, out, errOut)
		}
	}
	if code, _, errOut := run(t, "", "delete", "pool", "x"); code != 2 || !strings.Contains(errOut, "portolan get, describe and pool are for them") {
		t.Errorf("delete pool: exit code %d\n%s", code, errOut)
	}
}

func TestPoolNamesAreCompleted(t *testing.T) {
	t.Setenv("PORTOLAN_ALLOCATOR", serveAllocator(t, &fakeAllocator{}))
	for _, args := range [][]string{
		{"get", "pools", ""}, {"describe", "pool", ""}, {"pool", "drain", ""}, {"pool", "resize", ""}, {"pool", "delete", ""},
	} {
		_, out, _ := run(t, "", append([]string{"__complete"}, args...)...)
		if !strings.HasPrefix(out, "node-port\nservice-ipv4\n:") {
			t.Errorf("%q is completed with\n%s", args, out)
		}
	}
	if _, out, _ := run(t, "", "__complete", "get", ""); !strings.Contains(out, "pods\n") || !strings.Contains(out, "pools\n") {
		t.Errorf("get is completed with\n%s", out)
	}
	if _, out, _ := run(t, "", "__complete", "pool", "create", "x", "--use", ""); !strings.HasPrefix(out, "cluster-ip\nnode-port\n") {
		t.Errorf("--use is completed with\n%s", out)
	}
	if _, out, _ := run(t, "", "__complete", "pool", "drain", "x", ""); !strings.HasPrefix(out, ":") {
		t.Errorf("a second name is completed with\n%s", out)
	}
}
