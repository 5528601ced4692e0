package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/internal/balancer"
	"portolan.dev/portolan/internal/printer"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/nearest"
	"portolan.dev/services/object"
)

// Names of the kind of pools in get and describe. Pools belong to the allocator and are no objects
// of the registry.
const (
	poolKind       = "pool"
	poolKindPlural = "pools"
)

// allocatorFlags are the flags of commands that speak to the allocator.
type allocatorFlags struct {
	*connection
	address string
}

func (f *allocatorFlags) register(command *cobra.Command) {
	allocatorPeer.register(command, &f.address)
}

// call runs do with a client of the allocator. An error says which address does not answer.
func (f *allocatorFlags) call(do func(allocatorv1.AllocatorServiceClient) error) error {
	conn, err := f.dialPeer(allocatorPeer, f.address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	err = do(allocatorv1.NewAllocatorServiceClient(conn))
	answered := len(status.Convert(err).Details()) > 0 // every error of the allocator has details
	if code := status.Code(err); !answered && (code == codes.Unavailable || code == codes.DeadlineExceeded) {
		return fmt.Errorf("the allocator at %s does not answer: %s; is it running, and can it be reached from here? --allocator names another address",
			f.peerAddress(allocatorPeer, f.address), apierr.Describe(err))
	}
	return err
}

// pools returns all pools, ordered by name.
func (f *allocatorFlags) pools(ctx context.Context) (pools []*allocatorv1.Pool, err error) {
	err = f.call(func(allocator allocatorv1.AllocatorServiceClient) error {
		listed, err := allocator.ListPools(ctx, &allocatorv1.ListPoolsRequest{})
		pools = listed.GetPools()
		return err
	})
	return pools, err
}

// pool returns the pool with a name.
func (f *allocatorFlags) pool(ctx context.Context, name string) (*allocatorv1.Pool, error) {
	pools, err := f.pools(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(pools))
	for i, p := range pools {
		if p.GetName() == name {
			return p, nil
		}
		names[i] = p.GetName()
	}
	message := fmt.Sprintf("pool %q does not exist", name)
	if near := nearest.Name(name, names); near != "" {
		message += fmt.Sprintf("; did you mean %s?", near)
	}
	return nil, errors.New(message + " See: portolan get pools")
}

// balancerPools returns the pools of load-balancer addresses if one of the objects has such an address.
// It returns none if the allocator does not answer soon, because the objects are more important.
func (f *allocatorFlags) balancerPools(ctx context.Context, of []object.Object) balancer.Pools {
	if !slices.ContainsFunc(of, hasBalancerAddress) {
		return balancer.Pools{}
	}
	ctx, cancel := context.WithTimeout(ctx, poolsPatience)
	defer cancel()
	pools, err := f.pools(ctx)
	if err != nil {
		return balancer.Pools{}
	}
	return balancer.NewPools(pools)
}

// poolsPatience is how long an answer about something else waits for the names of pools.
const poolsPatience = 3 * time.Second

func hasBalancerAddress(o object.Object) bool {
	svc, ok := o.(*corev1.Service)
	return ok && len(svc.GetStatus().GetLoadBalancer().GetIngress()) > 0
}

// complete completes the names of pools as the first argument.
func (f *allocatorFlags) complete(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.names(command), cobra.ShellCompDirectiveNoFileComp
}

func (f *allocatorFlags) names(command *cobra.Command) []string {
	pools, err := f.pools(command.Context())
	if err != nil {
		return nil
	}
	names := make([]string, len(pools))
	for i, p := range pools {
		names[i] = p.GetName()
	}
	return names
}

// poolTarget parses "pools", "pool NAME" and "pool/NAME". It reports whether the arguments are about
// pools.
func poolTarget(args []string) (name string, ok bool, err error) {
	kind, name, hasSlash := strings.Cut(args[0], "/")
	if kind := strings.ToLower(kind); kind != poolKind && kind != poolKindPlural {
		return "", false, nil
	}
	if len(args) > 1 {
		if hasSlash {
			return "", true, usageError{fmt.Errorf("%q names a pool already; %q is one name too many", args[0], args[1])}
		}
		name = args[1]
	}
	return name, true, nil
}

// getPools prints all pools, or the pool with the name if it is not empty.
func getPools(command *cobra.Command, f *allocatorFlags, name string, options *getOptions) error {
	if options.watch || options.labels != "" || options.fields != "" || options.all {
		return usageError{errors.New("pools have no namespace, labels or fields, and cannot be watched; leave out -A, -l, --field-selector and -w")}
	}
	var pools []*allocatorv1.Pool
	var err error
	if name == "" {
		pools, err = f.pools(command.Context())
	} else {
		pools = make([]*allocatorv1.Pool, 1)
		pools[0], err = f.pool(command.Context(), name)
	}
	if err != nil {
		return err
	}
	out := command.OutOrStdout()
	switch options.output {
	case "yaml", "json":
		if name != "" {
			return printer.Message(out, pools[0], options.output)
		}
		return printer.Message(out, &allocatorv1.ListPoolsResponse{Pools: pools}, options.output)
	case "name":
		for _, p := range pools {
			if _, err := fmt.Fprintf(out, "%s/%s\n", poolKind, p.GetName()); err != nil {
				return err
			}
		}
		return nil
	}
	if len(pools) == 0 {
		_, _ = fmt.Fprintln(command.ErrOrStderr(), "No pools found. See: portolan pool create --help")
		return nil
	}
	return printer.Pools(out, pools, options.output == "wide")
}

// maxListedAllocations bounds the allocations by which describe counts the owners of a pool. It is
// the largest page of the API, so that a pool with a million values takes one call.
const maxListedAllocations = 1000

func describePool(command *cobra.Command, f *allocatorFlags, name string) error {
	p, err := f.pool(command.Context(), name)
	if err != nil {
		return err
	}
	var listed *allocatorv1.ListAllocationsResponse
	err = f.call(func(allocator allocatorv1.AllocatorServiceClient) (err error) {
		listed, err = allocator.ListAllocations(command.Context(), &allocatorv1.ListAllocationsRequest{Pool: name, PageSize: maxListedAllocations})
		return err
	})
	if err != nil {
		return err
	}
	return printer.DescribePool(command.OutOrStdout(), p, listed)
}
