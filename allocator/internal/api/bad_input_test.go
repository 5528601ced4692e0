package api_test

import (
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/apierr"
)

const (
	useIP    = allocatorv1.Use_USE_CLUSTER_IP
	usePorts = allocatorv1.Use_USE_NODE_PORT
)

// TestBadInputChangesNothing checks that each mistake has an error that names the field and the remedy,
// and that pools and allocations are as before.
func TestBadInputChangesNothing(t *testing.T) {
	client := open(t, node{"n1", netip.MustParseAddr("10.200.0.11")})
	create := func(p *allocatorv1.Pool) error {
		_, err := client.CreatePool(t.Context(), &allocatorv1.CreatePoolRequest{Pool: p})
		return err
	}
	update := func(p *allocatorv1.Pool) error {
		_, err := client.UpdatePool(t.Context(), &allocatorv1.UpdatePoolRequest{Pool: p})
		return err
	}
	for _, p := range []*allocatorv1.Pool{
		{Name: "ips", Use: useIP, Range: "10.96.0.0/16"},
		{Name: "wide", Use: useIP, Range: "10.110.0.0/24", StaticBand: 100},
		{Name: "ports", Use: usePorts, Range: "30000-32767"},
	} {
		if err := create(p); err != nil {
			t.Fatal(err)
		}
	}
	allocate(t, client, "a", "10.96.0.7")
	allocate(t, client, "b", "10.96.200.1")
	allocate(t, client, "c", "10.96.100.1")
	before := state(t, client)
	for _, c := range []struct {
		name string
		err  error
		code codes.Code
		want []string
	}{
		{"overlapping pool", create(&allocatorv1.Pool{Name: "new", Use: useIP, Range: "10.96.4.0/24"}),
			codes.FailedPrecondition, []string{"range:", `overlaps pool "ips" with range 10.96.0.0/16`, "choose a range apart"}},
		{"pool that grows over another", update(&allocatorv1.Pool{Name: "wide", Range: "10.64.0.0/10"}),
			codes.FailedPrecondition, []string{"range:", `overlaps pool "ips"`, "choose a range apart"}},
		{"pool over a node", create(&allocatorv1.Pool{Name: "new", Use: useIP, Range: "10.200.0.0/24"}),
			codes.FailedPrecondition, []string{"range:", "10.200.0.11, which is an address of node n1", "choose a range without"}},
		{"pool that grows over a node", update(&allocatorv1.Pool{Name: "ips", Range: "10.0.0.0/8"}),
			codes.FailedPrecondition, []string{"range:", "address of node n1"}},
		{"shrinking below what is in use", update(&allocatorv1.Pool{Name: "ips", Range: "10.96.0.0/24"}),
			codes.FailedPrecondition, []string{"range: 10.96.0.0/24 leaves out 2 values in use, such as 10.96.100.1 of Service default/c", "delete or change"}},
		{"shrinking below a chosen band", update(&allocatorv1.Pool{Name: "wide", Range: "10.110.0.0/26"}),
			codes.InvalidArgument, []string{"range:", "static band of 100", "choose a larger one"}},
		{"host bits", create(&allocatorv1.Pool{Name: "new", Use: useIP, Range: "10.100.0.1/16"}),
			codes.InvalidArgument, []string{"range:", "host bits set", "did you mean 10.100.0.0/16?"}},
		{"host bits of IPv6", create(&allocatorv1.Pool{Name: "new", Use: useIP, Range: "fd00::1/112"}),
			codes.InvalidArgument, []string{"range:", "did you mean fd00::/112?"}},
		{"IPv4 in the form of IPv6", create(&allocatorv1.Pool{Name: "new", Use: useIP, Range: "::ffff:10.100.0.0/112"}),
			codes.InvalidArgument, []string{"range:", "IPv4 addresses in the form of IPv6", "write them as IPv4"}},
		{"range that is too large", create(&allocatorv1.Pool{Name: "new", Use: useIP, Range: "fd00::/48"}),
			codes.InvalidArgument, []string{"range:", "larger than a /64", "choose a /64"}},
		{"no range", create(&allocatorv1.Pool{Name: "new", Use: useIP, Range: "10.100.0.0-10.100.0.9/x"}),
			codes.InvalidArgument, []string{"range:", "is no CIDR such as"}},
		{"addresses as ports", create(&allocatorv1.Pool{Name: "new", Use: usePorts, Range: "10.100.0.0/16"}),
			codes.InvalidArgument, []string{"range:", "cannot be for node ports, which need ports, such as"}},
		{"band larger than the range", create(&allocatorv1.Pool{Name: "new", Use: useIP, Range: "10.100.0.0/28", StaticBand: 15}),
			codes.InvalidArgument, []string{"staticBand:", "15 is larger than the range of 14 values", "leave it out"}},
		{"band of a pool that exists", update(&allocatorv1.Pool{Name: "ips", StaticBand: 3}),
			codes.InvalidArgument, []string{"staticBand:", "cannot be chosen anew"}},
		{"another use", update(&allocatorv1.Pool{Name: "ips", Use: allocatorv1.Use_USE_POD_IP}),
			codes.InvalidArgument, []string{"use:", "cannot be changed"}},
		{"name", create(&allocatorv1.Pool{Name: "New_", Use: useIP, Range: "10.100.0.0/16"}),
			codes.InvalidArgument, []string{"name:", "lower-case letters"}},
		{"no use", create(&allocatorv1.Pool{Name: "new", Range: "10.100.0.0/16"}),
			codes.InvalidArgument, []string{"use:", "cluster IPs, node ports"}},
		{"unknown pool", update(&allocatorv1.Pool{Name: "none", Range: "10.100.0.0/16"}),
			codes.NotFound, []string{"none"}},
		{"delete of a pool that is not retired", remove(t, client, "ips"),
			codes.FailedPrecondition, []string{`state: pool "ips" is active`, "only a retired pool"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := apierr.Describe(c.err)
			if status.Code(c.err) != c.code {
				t.Errorf("%v: %s, want %s", status.Code(c.err), text, c.code)
			}
			for _, part := range c.want {
				if !strings.Contains(text, part) {
					t.Errorf("%s\nlacks %q", text, part)
				}
			}
		})
	}
	resp, err := client.Allocate(t.Context(), &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{{Claims: []*allocatorv1.Claim{{Slot: "ip", Use: useIP}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if f := resp.GetResults()[0].GetFailures(); len(f) != 1 || f[0].GetReason() != allocatorv1.FailureReason_FAILURE_REASON_INVALID || !strings.Contains(f[0].GetMessage(), "owner.uid is required") {
		t.Errorf("an owner without uid: %v", resp)
	}
	for name, set := range map[string]*allocatorv1.ClaimSet{
		"uid":  {Owner: &allocatorv1.Owner{Uid: "u\x00"}, Claims: []*allocatorv1.Claim{{Slot: "ip", Use: useIP}}},
		"name": {Owner: &allocatorv1.Owner{Uid: "u", Name: "n\x00"}, Claims: []*allocatorv1.Claim{{Slot: "ip", Use: useIP}}},
		"slot": {Owner: &allocatorv1.Owner{Uid: "u"}, Claims: []*allocatorv1.Claim{{Slot: "\x00ip", Use: useIP}}},
	} {
		_, err := client.Allocate(t.Context(), &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{set}})
		if text := apierr.Describe(err); status.Code(err) != codes.InvalidArgument || !strings.Contains(text, name+": ") || !strings.Contains(text, "NUL") {
			t.Errorf("a NUL character in %s: %s", name, text)
		}
	}
	if _, err := client.ListAllocations(t.Context(), &allocatorv1.ListAllocationsRequest{Pool: "ips\x00"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a NUL character in the name of a pool: %v", err)
	}
	if after := state(t, client); after != before {
		t.Errorf("pools and allocations were\n%s\nand are\n%s", before, after)
	}
}

// TestAPoolWithANodeInItCanBeDrained checks that an update that keeps the range is not refused
// because of a node that came after the pool.
func TestAPoolWithANodeInItCanBeDrained(t *testing.T) {
	var late node
	client := open(t, &late)
	if _, err := client.CreatePool(t.Context(), &allocatorv1.CreatePoolRequest{Pool: &allocatorv1.Pool{Name: "ips", Use: useIP, Range: "10.96.0.0/16"}}); err != nil {
		t.Fatal(err)
	}
	late = node{"n1", netip.MustParseAddr("10.96.0.11")}
	for _, p := range []*allocatorv1.Pool{
		{Name: "ips", State: allocatorv1.PoolState_POOL_STATE_DRAINING},
		{Name: "ips", Range: "10.96.0.0/16", State: allocatorv1.PoolState_POOL_STATE_RETIRED},
	} {
		if _, err := client.UpdatePool(t.Context(), &allocatorv1.UpdatePoolRequest{Pool: p}); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
}

func remove(t *testing.T, client allocatorv1.AllocatorServiceClient, name string) error {
	t.Helper()
	_, err := client.DeletePool(t.Context(), &allocatorv1.DeletePoolRequest{Name: name})
	return err
}

func allocate(t *testing.T, client allocatorv1.AllocatorServiceClient, uid, value string) {
	t.Helper()
	resp, err := client.Allocate(t.Context(), &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{{
		Owner:  &allocatorv1.Owner{Uid: uid, Kind: "Service", Namespace: "default", Name: uid},
		Claims: []*allocatorv1.Claim{{Slot: "ip", Use: useIP, Value: value}},
	}}})
	if err != nil || len(resp.GetResults()[0].GetFailures()) > 0 {
		t.Fatalf("allocate %s: %v, %v", value, resp, err)
	}
}

// state returns all pools and allocations as text.
func state(t *testing.T, client allocatorv1.AllocatorServiceClient) string {
	t.Helper()
	pools, err := client.ListPools(t.Context(), &allocatorv1.ListPoolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	allocations, err := client.ListAllocations(t.Context(), &allocatorv1.ListAllocationsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return prototext.Format(pools) + prototext.Format(allocations)
}
