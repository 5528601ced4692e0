package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/terminal"
)

// Runner runs one program as a pod.
type Runner struct {
	Registry  grpc.ClientConnInterface
	Allocator grpc.ClientConnInterface
	In        io.Reader
	// Out and ErrOut are the program's. The runner's messages go to ErrOut too. A program gets the
	// writers below a [terminal.Writer].
	Out     io.Writer
	ErrOut  io.Writer
	Options Options
	// Self is the path of the portolan program, which sets up a program's resolv.conf. If it is
	// empty, no resolv.conf is set up.
	Self string

	pods registryv1.PodServiceClient
	pod  *corev1.Pod // as last stored

	settings *registryv1.GetSettingsResponse
}

// ErrExit is the error of a program that ended with an exit code other than 0.
type ErrExit struct{ Code int }

// Error implements error.
func (e ErrExit) Error() string { return fmt.Sprintf("the program ended with exit code %d", e.Code) }

// Run runs the program. It returns when the program has ended and the pod is removed. When ctx
// ends, it asks the program to stop.
func (r *Runner) Run(ctx context.Context) error {
	r.pods = registryv1.NewPodServiceClient(r.Registry)
	pod, err := r.Options.pod()
	if err != nil {
		return err
	}
	if r.settings, err = registryv1.NewDiscoveryServiceClient(r.Registry).GetSettings(ctx, &registryv1.GetSettingsRequest{}); err != nil {
		return fmt.Errorf("settings of the installation: %w", err)
	}
	if err := r.register(ctx, pod); err != nil {
		return err
	}
	defer r.deletePod()
	command, forget, err := r.command(ctx)
	if err != nil {
		return err
	}
	defer forget()
	if err := command.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if err := r.running(ctx); err != nil {
		_ = command.Process.Kill()
		return errors.Join(err, command.Wait())
	}
	_, _ = fmt.Fprintf(r.ErrOut, "pod %s/%s runs at %s on node %s\n", r.pod.GetMetadata().GetNamespace(), r.pod.GetMetadata().GetName(),
		strings.Join(r.pod.GetStatus().GetPodIps(), " and "), r.pod.GetSpec().GetNodeName())
	return r.wait(ctx, command)
}

// register stores the pod and then gives it an address, because the address is allocated to the
// pod's UID, which the registry makes.
func (r *Runner) register(ctx context.Context, pod *corev1.Pod) error {
	if err := r.chooseNode(ctx, pod); err != nil {
		return err
	}
	created, err := r.pods.CreatePod(ctx, &registryv1.CreatePodRequest{Pod: pod})
	if status.Code(err) == codes.AlreadyExists && r.Options.Replace {
		created, err = r.replace(ctx, pod)
	}
	if err != nil {
		return err
	}
	r.pod = created.GetPod()
	addresses, err := r.addresses(ctx)
	if err != nil {
		r.deletePod()
		return err
	}
	r.pod.Status = &corev1.PodStatus{
		Phase: corev1.PodPhase_POD_PHASE_PENDING, PodIp: addresses[0], PodIps: addresses, StartTime: timestamppb.Now(),
	}
	return nil
}

// replace removes the pod of that name that an earlier run has left behind.
func (r *Runner) replace(ctx context.Context, pod *corev1.Pod) (*registryv1.CreatePodResponse, error) {
	meta := pod.GetMetadata()
	left, err := r.pods.GetPod(ctx, &registryv1.GetPodRequest{Namespace: meta.GetNamespace(), Name: meta.GetName()})
	switch {
	case status.Code(err) == codes.NotFound: // deleted in the meantime
	case err != nil:
		return nil, err
	default:
		r.pod = left.GetPod()
		r.deletePod()
	}
	return r.pods.CreatePod(ctx, &registryv1.CreatePodRequest{Pod: pod})
}

// addresses returns the given addresses of the program, or allocates new ones.
func (r *Runner) addresses(ctx context.Context) ([]string, error) {
	if len(r.Options.Addresses) > 0 {
		return r.Options.Addresses, nil
	}
	return r.allocate(ctx)
}

// chooseNode chooses the only node if none is named.
func (r *Runner) chooseNode(ctx context.Context, pod *corev1.Pod) error {
	if pod.GetSpec().GetNodeName() != "" {
		return nil
	}
	nodes, err := client.ListOf[*corev1.Node](ctx, client.New(r.Registry), client.Query{})
	if err != nil {
		return err
	}
	switch len(nodes) {
	case 1:
		pod.Spec.NodeName = nodes[0].GetMetadata().GetName()
		return nil
	case 0:
		return errors.New("no node is registered; start a node agent, or name the node with --node")
	default:
		host, _ := os.Hostname()
		for _, node := range nodes {
			if node.GetMetadata().GetName() == host {
				pod.Spec.NodeName = host
				return nil
			}
		}
		return fmt.Errorf("there are %d nodes and none is called %q like this machine; name one with --node", len(nodes), host)
	}
}

// running publishes the address. From then on the readiness probe decides about traffic.
func (r *Runner) running(ctx context.Context) error {
	pod := &corev1.Pod{Metadata: r.pod.GetMetadata(), Status: r.pod.GetStatus()}
	pod.Metadata.ResourceVersion = 0
	pod.Status.Phase = corev1.PodPhase_POD_PHASE_RUNNING
	updated, err := r.pods.UpdatePodStatus(ctx, &registryv1.UpdatePodStatusRequest{Pod: pod})
	if err != nil {
		return fmt.Errorf("publish the pod: %w", err)
	}
	r.pod = updated.GetPod()
	return nil
}

// command prepares the program in a process group of its own, so that Ctrl-C reaches it only
// through this process, after the pod has left its services. The returned function removes the
// files that the program needs while it runs.
func (r *Runner) command(ctx context.Context) (command *exec.Cmd, forget func(), err error) {
	program := exec.Command(r.Options.Command[0], r.Options.Command[1:]...)
	if program.Err != nil {
		return nil, nil, fmt.Errorf("start: %w", program.Err)
	}
	environment, err := r.environment(ctx)
	if err != nil {
		return nil, nil, err
	}
	names := ResolverConfigFor(r.Options.Nameservers, r.pod.GetMetadata().GetNamespace(), r.settings.GetZone(), searchOf(hostResolvConf))
	line, variables, forget, err := r.privateResolver(names, r.Options.Command)
	if err != nil {
		return nil, nil, fmt.Errorf("resolv.conf of the program: %w", err)
	}
	command = exec.Command(line[0], line[1:]...)
	command.Stdin, command.Stdout, command.Stderr = r.In, terminal.Raw(r.Out), terminal.Raw(r.ErrOut)
	command.Env = append(environment, variables...)
	command.SysProcAttr = ownGroup()
	return command, forget, nil
}

// wait returns when the program has ended. It asks the program to stop when ctx ends or the pod is
// deleted.
func (r *Runner) wait(ctx context.Context, command *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	grace := r.Options.Grace
	select {
	case err := <-ended:
		return exitOf(err)
	case <-ctx.Done():
		r.startTermination()
	case left := <-r.deletions(watching):
		grace = max(0, min(grace, left-r.Options.DrainDelay))
		_, _ = fmt.Fprintf(r.ErrOut, "pod %s/%s was deleted; the program is asked to stop\n", r.pod.GetMetadata().GetNamespace(), r.pod.GetMetadata().GetName())
	}
	if pause(ended, r.Options.DrainDelay) {
		return nil
	}
	askToStop(command.Process)
	if pause(ended, grace) {
		return nil
	}
	_, _ = fmt.Fprintf(r.ErrOut, "the program did not stop within %s and is killed\n", grace)
	kill(command.Process)
	<-ended
	return nil
}

// pause waits for d, and reports whether the program ended in the meantime.
func pause(ended <-chan error, d time.Duration) bool {
	select {
	case <-ended:
		return true
	case <-time.After(d):
		return false
	}
}

func exitOf(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code := exit.ExitCode()
		if code < 0 {
			code = 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
		}
		return ErrExit{Code: code}
	}
	return err
}

// cleanup bounds the removal of the pod while the command itself is being stopped.
const cleanup = 10 * time.Second

// startTermination deletes the pod with its grace period, so that balancers stop sending.
func (r *Runner) startTermination() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanup)
	defer cancel()
	if err := r.delete(ctx, r.Options.graceSeconds()); err != nil {
		_, _ = fmt.Fprintln(r.ErrOut, "the pod could not be marked as terminating:", err)
	}
}

// deletePod deletes the pod without grace. The allocator frees the address of a deleted pod.
func (r *Runner) deletePod() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanup)
	defer cancel()
	if err := r.delete(ctx, 0); err != nil && status.Code(err) != codes.NotFound && status.Code(err) != codes.Aborted {
		meta := r.pod.GetMetadata()
		_, _ = fmt.Fprintf(r.ErrOut, "pod %s/%s could not be removed (%v); remove it with: portolan delete pod %s -n %s --grace-period 0\n",
			meta.GetNamespace(), meta.GetName(), err, meta.GetName(), meta.GetNamespace())
	}
	r.release(ctx)
}

// delete deletes the pod if it still has this UID. Otherwise it returns ABORTED.
func (r *Runner) delete(ctx context.Context, grace int64) error {
	meta := r.pod.GetMetadata()
	_, err := r.pods.DeletePod(ctx, &registryv1.DeletePodRequest{
		Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(), GracePeriodSeconds: &grace,
	})
	return err
}
