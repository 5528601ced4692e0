package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
	"portolan.dev/services/probe"
	"portolan.dev/services/terminal"
)

// localAgent is the address of the agent on the same machine, by its default.
const localAgent = "127.0.0.1:7404"

func newCheck(flags *connection) *cobra.Command {
	command := &cobra.Command{
		Use:   "check",
		Short: "Report whether a pod is ready, or try a check",
		Long: `check reports the outcome of a ttl check to the node agent of the pod's node. A pod whose readiness probe is ttl is ready while the last report is a
pass and is younger than the time to live; until the first report it is not ready. check probe tries a check of another kind once.`,
		Example: `  portolan check pass web-1
  portolan check fail shop/web-1 --message "the disk is full"
  portolan check probe 'http://127.0.0.1:8000/healthz timeout=2s'`,
	}
	command.AddCommand(newCheckReport(flags, nodeagentv1.CheckOutcome_CHECK_OUTCOME_PASS), newCheckReport(flags, nodeagentv1.CheckOutcome_CHECK_OUTCOME_FAIL), newCheckProbe())
	return command
}

// reportFlags are the flags of a report about a pod.
type reportFlags struct {
	*connection
	request     nodeagentv1.ReportCheckRequest
	node, agent string
	every       time.Duration
}

func newCheckReport(flags *connection, outcome nodeagentv1.CheckOutcome) *cobra.Command {
	f := &reportFlags{connection: flags}
	f.request.Outcome = outcome
	command := &cobra.Command{
		Use:   "pass [NAMESPACE/]POD",
		Short: "Report that a pod with a ttl check is ready",
		Long: `pass renews the ttl check of a pod at the agent of its node. Repeat it before the time to live is over, such as three times within it. An operator
reports for every pod, a workload for its own, and by default to the agent at ` + localAgent + `.`,
		Example: `  portolan check pass web-1
  portolan check pass shop/web-1 --container main
  portolan check pass web-1 --every 10s &                     # until it is stopped
  portolan check pass web-1 --node n1 --agent 10.0.0.1:7404    # without asking the registry
  ./selftest && portolan check pass web-1 || portolan check fail web-1 --message "the self-test fails"`,
	}
	if outcome == nodeagentv1.CheckOutcome_CHECK_OUTCOME_FAIL {
		command = &cobra.Command{
			Use:   "fail [NAMESPACE/]POD",
			Short: "Report that a pod with a ttl check is not ready",
			Long: `fail makes the ttl check of a pod fail at the agent of its node, until the next pass. The message is in the pod's condition. An operator reports for
every pod, a workload for its own, and by default to the agent at ` + localAgent + `.`,
			Example: `  portolan check fail web-1 --message "the disk is full"
  portolan check fail shop/web-1 --node n1 --agent 10.0.0.1:7404`,
		}
		command.Flags().StringVar(&f.request.Message, "message", "", "reason, at most 1024 bytes")
	} else {
		command.Flags().DurationVar(&f.every, "every", 0, "repeat it at this interval until it is interrupted; failures are printed (default: once)")
	}
	command.Args = arguments(cobra.ExactArgs(1), "[NAMESPACE/]POD")
	command.ValidArgsFunction = cobra.NoFileCompletions
	command.RunE = flags.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
		if f.every < 0 {
			return usageError{errors.New("--every: want a positive interval, such as 10s")}
		}
		return f.run(command, args[0], registry)
	})
	set := command.Flags()
	set.StringVarP(&f.request.Namespace, "namespace", "n", object.DefaultNamespace, "namespace of the pod, unless it is in the argument")
	set.StringVarP(&f.request.Container, "container", "c", "", "container with the ttl check (default: the only one)")
	set.StringVar(&f.node, "node", "", "node of the pod (default: as in the registry)")
	set.StringVar(&f.agent, "agent", "", "address of the node agent's API (default: as the node reports it)")
	return command
}

// run reports once, or again and again.
func (f *reportFlags) run(command *cobra.Command, pod string, registry *client.Client) error {
	f.request.Pod = pod
	if namespace, name, ok := strings.Cut(pod, "/"); ok {
		f.request.Namespace, f.request.Pod = namespace, name
	}
	ctx := command.Context()
	where, err := f.find(ctx, registry)
	if err != nil {
		return err
	}
	ttl, err := f.report(ctx, where)
	if err != nil || f.every == 0 {
		if err == nil && f.request.GetOutcome() == nodeagentv1.CheckOutcome_CHECK_OUTCOME_PASS {
			_, err = fmt.Fprintf(command.OutOrStdout(), "reported; the next report must follow within %s\n", ttl)
		}
		return err
	}
	ticker := time.NewTicker(f.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if _, err := f.report(ctx, where); err != nil && ctx.Err() == nil {
			_, _ = fmt.Fprintln(command.ErrOrStderr(), "not reported:", terminal.Line(err.Error()))
		}
	}
}

func (f *reportFlags) report(ctx context.Context, where agentAddress) (time.Duration, error) {
	answer, err := f.askAgent(f.node, where, func(agent nodeagentv1.NodeAgentServiceClient) (proto.Message, error) {
		return agent.ReportCheck(ctx, &f.request)
	})
	if err != nil {
		return 0, err
	}
	reported, _ := answer.(*nodeagentv1.ReportCheckResponse)
	return timeToLive(reported), nil
}

// timeToLive returns the time within which the next report must follow. Agents of earlier releases send
// only ttl_seconds.
func timeToLive(reported *nodeagentv1.ReportCheckResponse) time.Duration {
	if reported.GetTtl() != nil {
		return reported.GetTtl().AsDuration()
	}
	return time.Duration(reported.GetTtlSeconds()) * time.Second
}

// find returns the address of the agent, and completes the node. A workload's certificate has the name
// of its node, and may not list agents: it reports to the agent on its own machine.
func (f *reportFlags) find(ctx context.Context, registry *client.Client) (agentAddress, error) {
	source, err := f.identity()
	if err != nil {
		return agentAddress{}, err
	}
	if source != nil && source.ID().Role == identity.Workload {
		f.node = cmp.Or(f.node, source.ID().Name)
		return agentAddress{cmp.Or(f.agent, localAgent), "a workload does not ask the registry for it"}, nil
	}
	if f.node == "" {
		if f.node, err = nodeOf(ctx, registry, f.request.GetNamespace(), f.request.GetPod()); err != nil {
			return agentAddress{}, err
		}
	}
	if f.agent != "" {
		return agentAddress{f.agent, "the registry was not asked"}, nil
	}
	return locate(ctx, registry, f.node)
}

// nodeOf returns the node of a pod.
func nodeOf(ctx context.Context, registry *client.Client, namespace, name string) (string, error) {
	kind, _ := kinds.Named("Pod")
	found, err := registry.Get(ctx, kind, namespace, name)
	if err != nil {
		return "", err
	}
	pod, _ := found.(*corev1.Pod)
	if node := pod.GetSpec().GetNodeName(); node != "" {
		return node, nil
	}
	return "", fmt.Errorf("pod %s/%s is on no node, so no agent checks it: set spec.nodeName", namespace, name)
}

func newCheckProbe() *cobra.Command {
	address := ""
	command := &cobra.Command{
		Use:   "probe CHECK",
		Short: "Try a check once, from here",
		Long: `probe makes an http, https, tcp or grpc check as a node agent would, and prints the outcome. Without a host in the check it goes to --address.
The exit code is 0 if the check succeeds. Scripts and ttl checks can only be tried at the node agent.`,
		Example: `  portolan check probe http://127.0.0.1:8000/healthz
  portolan check probe 'https://:8443/ timeout=5s' --address 10.0.0.7
  portolan check probe grpc://:9000/shop.Cart`,
		Args:              arguments(cobra.ExactArgs(1), "CHECK, such as http://127.0.0.1:8000/"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			took, err := tryCheck(command.Context(), args[0], address)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "ready (%s)\n", took.Round(time.Microsecond))
			return err
		},
	}
	command.Flags().StringVar(&address, "address", "127.0.0.1", "address to check, as that of a pod")
	return command
}

// tryCheck makes a check once, and returns how long it took.
func tryCheck(ctx context.Context, text, address string) (time.Duration, error) {
	parsed, err := probe.Parse(text)
	if err != nil {
		return 0, usageError{err}
	}
	check, err := probe.New(&corev1.Container{Name: "main", ReadinessProbe: parsed}, address)
	if err != nil {
		return 0, usageError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(parsed.GetTimeoutSeconds(), 1))*time.Second)
	defer cancel()
	begin := time.Now()
	if err := check(ctx); err != nil {
		return 0, fmt.Errorf("not ready: %w", err)
	}
	return time.Since(begin), nil
}
