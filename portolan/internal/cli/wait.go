package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
	"portolan.dev/services/terminal"
)

// waitOptions are the flags of wait.
type waitOptions struct {
	namespace, nodes string
	endpoints        string // address of the endpoint controller
	applied          bool
	timeout          time.Duration
}

func newWait(flags *connection) *cobra.Command {
	options := &waitOptions{}
	command := &cobra.Command{
		Use:   "wait service NAME --applied",
		Short: "Wait until a service is programmed on every node",
		Long: `wait --applied returns when every node forwards the service as it was when the command began: the endpoint controller has written its
endpoint slices, each node has come to the revision of the service and its slices, and nothing of the service fails there. The exit code is
0 then, and 1 when the time is over before; the message names the nodes that are missing, and why, or says why the slices are not written.
If the endpoint controller does not answer, the command waits for the nodes only, and says so.`,
		Example: `  portolan wait service/web --applied
  portolan apply -f web.yaml && portolan wait svc web --applied --timeout 2m
  portolan wait svc/web -n shop --applied --nodes topology.kubernetes.io/zone=a`,
		Args: arguments(cobra.RangeArgs(1, 2), "service NAME"),
		RunE: flags.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
			what, err := parseTarget(args)
			switch {
			case err != nil:
				return err
			case what.kind.Name != "Service" || what.name == "":
				return usageError{errors.New("say which service: wait service NAME --applied")}
			case !options.applied:
				return usageError{errors.New("say what to wait for: --applied")}
			}
			if _, err := spec.ParseSelector(options.nodes); err != nil {
				return usageError{fmt.Errorf("--nodes: %w", err)}
			}
			return runWait(command, flags, registry, what.name, options)
		}),
	}
	set := command.Flags()
	set.StringVarP(&options.namespace, "namespace", "n", object.DefaultNamespace, "namespace")
	set.BoolVar(&options.applied, "applied", false, "wait until it is programmed on the nodes")
	set.StringVar(&options.nodes, "nodes", "", "only nodes with these labels, such as zone=a,disk!=slow")
	endpointctlPeer.register(command, &options.endpoints)
	set.DurationVar(&options.timeout, "timeout", 30*time.Second, "how long to wait; 0: look once; negative: for ever")
	return command
}

func runWait(command *cobra.Command, flags *connection, registry *client.Client, name string, options *waitOptions) error {
	ctx := command.Context()
	question := rollout.Query{Namespace: options.namespace, Name: name, Nodes: options.nodes, Dial: flags.dialAgent}
	if _, err := revisionOf(ctx, registry, options.namespace, name); err != nil { // such as that there is no such service
		return err
	}
	controller, err := flags.dialPeer(endpointctlPeer, options.endpoints)
	if err != nil {
		return err
	}
	defer func() { _ = controller.Close() }()
	w := &waiter{registry: registry, controller: controller, query: question, screen: terminal.Raw(command.ErrOrStderr()), live: isTerminal(command.ErrOrStderr())}
	began := time.Now()
	progress, err := w.wait(ctx, options.timeout)
	if err != nil {
		return err
	}
	who := "service " + options.namespace + "/" + name
	switch {
	case !w.knowsSlices():
		return fmt.Errorf("the endpoint slices of %s are not as wanted after %s: %s; see: portolan explain service %s -n %s",
			who, time.Since(began).Round(100*time.Millisecond), w.endpoints.Reason, name, options.namespace)
	case w.endpoints.State == rollout.Silent:
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "whether the endpoint slices of %s are as wanted is not known: %s\n", who, terminal.Line(w.endpoints.Reason))
	}
	if progress.Complete() {
		_, err = fmt.Fprintf(command.OutOrStdout(), "%s is %s at revision %d\n", who, progress, progress.Revision)
		return err
	}
	if len(progress.Nodes) == 0 {
		if options.nodes != "" {
			return fmt.Errorf("no node with an agent has the labels %s; see: portolan get nodes --selector %s", options.nodes, options.nodes)
		}
		return errors.New("no node agent has been heard of; start one on each node")
	}
	progress.Explain(ctx, w.query, maxNodes)
	return fmt.Errorf("%s is %s at revision %d after %s; missing:\n  %s", who, progress, progress.Revision,
		time.Since(began).Round(100*time.Millisecond), strings.Join(missingLines(progress), "\n  "))
}

// revisionOf returns the current revision of a service and its slices. It is the revision of the
// list of slices, which also covers slices that were just deleted.
func revisionOf(ctx context.Context, registry *client.Client, namespace, name string) (uint64, error) {
	got, err := registryv1.NewServiceServiceClient(registry.Conn()).GetService(ctx, &registryv1.GetServiceRequest{Namespace: namespace, Name: name})
	if err != nil {
		return 0, err
	}
	kind, _ := kinds.Named("EndpointSlice")
	_, revision, err := registry.List(ctx, kind, client.Query{Namespace: namespace, Labels: object.LabelServiceName + "=" + name})
	return max(revision, got.GetService().GetMetadata().GetResourceVersion()), err
}

// Limits of the interval between two checks. It starts short, because most changes take
// milliseconds.
const (
	waitMin = 50 * time.Millisecond
	waitMax = time.Second
)

// waiter checks until a service is programmed.
type waiter struct {
	registry   *client.Client
	controller grpc.ClientConnInterface // the endpoint controller
	endpoints  rollout.Endpoints        // as last seen
	query      rollout.Query
	screen     io.Writer
	live       bool // the screen is a terminal
}

// knowsSlices reports whether the slices for which nodes are waited for are known: they are as wanted, or the
// endpoint controller does not say.
func (w *waiter) knowsSlices() bool {
	return w.endpoints.State == rollout.Programmed || w.endpoints.State == rollout.Silent
}

// look returns the present progress. It asks for the nodes once the slices are written, because before that
// the nodes cannot have them.
func (w *waiter) look(ctx context.Context) (progress rollout.Progress, err error) {
	if !w.knowsSlices() {
		if w.endpoints = rollout.GetEndpoints(ctx, w.controller, w.query.Namespace, w.query.Name); !w.knowsSlices() {
			w.show("endpoint slices: " + w.endpoints.Reason)
			return progress, nil
		}
		if w.query.Revision, err = revisionOf(ctx, w.registry, w.query.Namespace, w.query.Name); err != nil {
			w.endpoints = rollout.Endpoints{}
			return progress, err
		}
	}
	progress, err = rollout.GetProgress(ctx, w.registry, w.query)
	if err == nil {
		w.show(progress.String())
	}
	return progress, err
}

// wait returns the last progress. It also waits for a registry that does not answer.
func (w *waiter) wait(ctx context.Context, timeout time.Duration) (progress rollout.Progress, err error) {
	defer w.wipe()
	deadline := time.Now().Add(timeout)
	for pause := waitMin; ; pause = min(pause*3/2, waitMax) {
		found, err := w.look(ctx)
		switch {
		case err == nil:
			progress = found
		case status.Code(err) == codes.Unavailable && timeout != 0:
			w.show("the registry does not answer")
		default:
			return progress, err
		}
		left := time.Until(deadline)
		// If the labels select no node, waiting would hide a mistake in them.
		noNodes := w.knowsSlices() && len(progress.Nodes) == 0 && w.query.Nodes != ""
		if err == nil && (progress.Complete() || noNodes) || timeout >= 0 && left <= 0 {
			return progress, err
		}
		if timeout >= 0 {
			pause = min(pause, max(left, time.Millisecond))
		}
		if !app.Pause(ctx, pause) {
			return progress, ctx.Err()
		}
	}
}

// show replaces the line on the screen.
func (w *waiter) show(line string) {
	if w.live {
		_, _ = fmt.Fprintf(w.screen, "\r\x1b[K%s", terminal.Line(line))
	}
}

func (w *waiter) wipe() { w.show("") }
