package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/portolan/internal/printer"
)

func newPool(flags *connection) *cobra.Command {
	command := &cobra.Command{
		Use:   "pool",
		Short: "Create, resize, drain and delete pools of virtual IPs, node ports and other values",
		Long: `A pool is a range of addresses or ports that the allocator gives to services and pods. Pools of one use do not overlap; a service without a wish
gets a value of any of them. To move to another range: create a pool with it, drain the old pool, recreate or change the services and pods that have
values of the old pool, then retire and delete it.`,
		Example: `  portolan get pools
  portolan pool create more --use cluster-ip --range 10.97.0.0/16
  portolan pool drain service-ipv4`,
	}
	command.AddCommand(newPoolCreate(flags), newPoolResize(flags),
		newPoolState(flags, allocatorv1.PoolState_POOL_STATE_DRAINING), newPoolState(flags, allocatorv1.PoolState_POOL_STATE_ACTIVE),
		newPoolState(flags, allocatorv1.PoolState_POOL_STATE_RETIRED), newPoolDelete(flags))
	return command
}

// poolChange is a command that changes a pool and prints it.
type poolChange struct {
	allocatorFlags
	output string
}

func (c *poolChange) register(command *cobra.Command) {
	c.allocatorFlags.register(command)
	registerOutput(command, &c.output, "text", "json", "yaml")
}

// run makes a change and prints the changed pool, as text: "pool/NAME done: ...".
func (c *poolChange) run(command *cobra.Command, done string, change func(allocatorv1.AllocatorServiceClient) (*allocatorv1.Pool, error)) error {
	var p *allocatorv1.Pool
	err := c.call(func(allocator allocatorv1.AllocatorServiceClient) (err error) {
		p, err = change(allocator)
		return err
	})
	if err != nil {
		return err
	}
	return printMessage(command, p, c.output, func(out io.Writer, p *allocatorv1.Pool) error {
		_, err := fmt.Fprintf(out, "%s/%s %s: %s\n", poolKind, p.GetName(), done, printer.PoolSummary(p))
		return err
	})
}

// update changes a pool. Fields that are not set stay as they are.
func (c *poolChange) update(command *cobra.Command, done string, p *allocatorv1.Pool) error {
	return c.run(command, done, func(allocator allocatorv1.AllocatorServiceClient) (*allocatorv1.Pool, error) {
		resp, err := allocator.UpdatePool(command.Context(), &allocatorv1.UpdatePoolRequest{Pool: p})
		return resp.GetPool(), err
	})
}

func newPoolCreate(flags *connection) *cobra.Command {
	c := &poolChange{allocatorFlags: allocatorFlags{connection: flags}}
	use, values, band, perProtocol, avoid := "", "", uint64(0), false, false
	command := &cobra.Command{
		Use:   "create NAME --use USE --range RANGE",
		Short: "Create a pool",
		Long: `create adds a range. It must not overlap the range of another pool or have an address of a node. Its first values are the static band: they are
left to services that ask for a certain value, while others are free.`,
		Example: `  portolan pool create more --use cluster-ip --range 10.97.0.0/16
  portolan pool create six --use cluster-ip --range fd00:96::/112
  portolan pool create high-ports --use node-port --range 40000-42767 --per-protocol
  portolan pool create public --use load-balancer-ip --range 203.0.113.0/24 --static-band 32
  portolan pool create wide --use load-balancer-ip --range 198.18.0.0/16 --avoid-buggy-ips`,
		Args:              arguments(cobra.ExactArgs(1), "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			of, ok := printer.PoolUse(use)
			switch {
			case !ok:
				return usageError{fmt.Errorf("--use %q is not known; uses are %s", use, strings.Join(printer.PoolUses(), ", "))}
			case values == "":
				return usageError{errors.New("say which values: --range 10.97.0.0/16, or --range 40000-42767 for node ports")}
			}
			p := &allocatorv1.Pool{Name: args[0], Use: of, Range: values, StaticBand: band, PerProtocol: perProtocol, AvoidBuggyIps: avoid}
			return c.run(command, "created", func(allocator allocatorv1.AllocatorServiceClient) (*allocatorv1.Pool, error) {
				resp, err := allocator.CreatePool(command.Context(), &allocatorv1.CreatePoolRequest{Pool: p})
				return resp.GetPool(), err
			})
		},
	}
	c.register(command)
	command.Flags().StringVar(&use, "use", "", strings.Join(printer.PoolUses(), ", "))
	command.Flags().StringVar(&values, "range", "", "addresses as a CIDR, or ports as FIRST-LAST")
	command.Flags().Uint64Var(&band, "static-band", 0, "size of the static band; 0: computed from the range")
	command.Flags().BoolVar(&perProtocol, "per-protocol", false, "of node ports: a number may belong to one service for TCP and to another one for UDP")
	command.Flags().BoolVar(&avoid, "avoid-buggy-ips", false, "of load-balancer IPs: addresses that end in .0 or .255, which some old clients and routers drop, are only for services that ask for them")
	_ = command.RegisterFlagCompletionFunc("use", cobra.FixedCompletions(printer.PoolUses(), cobra.ShellCompDirectiveNoFileComp)) // fails for an unknown flag only
	return command
}

func newPoolResize(flags *connection) *cobra.Command {
	c := &poolChange{allocatorFlags: allocatorFlags{connection: flags}}
	command := &cobra.Command{
		Use:   "resize NAME RANGE",
		Short: "Grow or shrink a pool",
		Long: `resize gives a pool another range, which must have all values that are in use. The static band is computed anew unless the pool was created with
a band of its own.`,
		Example: `  portolan pool resize service-ipv4 10.96.0.0/15
  portolan pool resize node-port 30000-34999`,
		Args:              arguments(cobra.ExactArgs(2), "NAME RANGE"),
		ValidArgsFunction: c.complete,
		RunE: func(command *cobra.Command, args []string) error {
			return c.update(command, "resized", &allocatorv1.Pool{Name: args[0], Range: args[1]})
		},
	}
	c.register(command)
	return command
}

// newPoolState returns the command that sets the state of a pool.
func newPoolState(flags *connection, state allocatorv1.PoolState) *cobra.Command {
	c := &poolChange{allocatorFlags: allocatorFlags{connection: flags}}
	done := "is " + printer.PoolState(state)
	var command *cobra.Command
	switch state {
	case allocatorv1.PoolState_POOL_STATE_DRAINING:
		command = &cobra.Command{
			Use:   "drain NAME",
			Short: "Allocate only values of a pool that are asked for",
			Long: `drain ends the allocation of values to services and pods that ask for no certain value. A certain value that a service asks for is still allocated.
Services and pods keep the values that they have. activate ends the draining.`,
			Example: "  portolan pool drain service-ipv4",
		}
	case allocatorv1.PoolState_POOL_STATE_RETIRED:
		command = &cobra.Command{
			Use:     "retire NAME",
			Short:   "Allocate no values of a pool any more, before it is deleted",
			Long:    "retire ends the allocation of values of a pool, also of certain values that services ask for. Services and pods keep the values that they have. activate takes the pool into use again.",
			Example: "  portolan pool retire service-ipv4",
		}
	default:
		command = &cobra.Command{
			Use:     "activate NAME",
			Short:   "Allocate values of a pool again",
			Example: "  portolan pool activate service-ipv4",
		}
	}
	command.Args = arguments(cobra.ExactArgs(1), "NAME")
	command.ValidArgsFunction = c.complete
	command.RunE = func(command *cobra.Command, args []string) error {
		return c.update(command, done, &allocatorv1.Pool{Name: args[0], State: state})
	}
	c.register(command)
	return command
}

func newPoolDelete(flags *connection) *cobra.Command {
	f := &allocatorFlags{connection: flags}
	command := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a retired pool of which no value is in use",
		Example: `  portolan pool retire old
  portolan pool delete old`,
		Args:              arguments(cobra.ExactArgs(1), "NAME"),
		ValidArgsFunction: f.complete,
		RunE: func(command *cobra.Command, args []string) error {
			err := f.call(func(allocator allocatorv1.AllocatorServiceClient) error {
				_, err := allocator.DeletePool(command.Context(), &allocatorv1.DeletePoolRequest{Name: args[0]})
				return err
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "%s/%s deleted\n", poolKind, args[0])
			return err
		},
	}
	f.register(command)
	return command
}
