package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/probe"
	"portolan.dev/services/spec"
)

// Options are the settings of a run.
type Options struct {
	Name         string            // empty: derived from the program's name
	Namespace    string            // empty: default
	Labels       map[string]string // empty: no service selects the pod
	Ports        []string          // NAME=NUMBER[/PROTOCOL]
	Ready        string            // check as probe.Parse reads it
	ReadyTCP     string            // port, by number or name
	ReadyHTTP    string            // PORT/PATH
	ReadyGRPC    string            // port
	Node         string            // empty: the only node
	Addresses    []string          // of the program, at most one per family; empty: one of each pod range
	Replace      bool              // replace the pod of the same name that an earlier run left
	Hostname     string            // DNS name below Subdomain's service
	Subdomain    string            // headless service
	Grace        time.Duration     // between the request to stop and the end
	ServiceLinks bool              // services of the namespace in the environment
	Nameservers  []string          // name servers on port 53; empty: the host's resolver
	DrainDelay   time.Duration     // between the removal from services and the request to stop
	Command      []string
	Identity     string // path of the workload's identity, such as workload/n1/default; empty: the caller is none
}

// pod returns the pod that the options describe.
func (o *Options) pod() (*corev1.Pod, error) {
	ports, portErr := parsePorts(o.Ports)
	readiness, probeErr := o.probe()
	if err := errors.Join(portErr, probeErr, o.check()); err != nil {
		return nil, err
	}
	grace := o.graceSeconds()
	pod := &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: o.Name, Namespace: cmp.Or(o.Namespace, "default"), Labels: o.Labels},
		Spec: &corev1.PodSpec{
			NodeName: o.Node, Hostname: o.Hostname, Subdomain: o.Subdomain,
			TerminationGracePeriodSeconds: &grace, EnableServiceLinks: &o.ServiceLinks,
			Containers: []*corev1.Container{{Name: "main", Command: o.Command, Ports: ports, ReadinessProbe: readiness}},
		},
		Status: &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_PENDING},
	}
	if o.Identity != "" {
		pod.Metadata.Annotations = map[string]string{object.AnnotationWorkload: o.Identity}
	}
	if o.Name == "" {
		pod.Metadata.GenerateName = nameOf(o.Command[0]) + "-"
	}
	return pod, nil
}

// graceSeconds returns the grace period of the pod: time to drain, to stop, and to be removed.
func (o *Options) graceSeconds() int64 {
	return int64(math.Ceil((o.DrainDelay + o.Grace).Seconds())) + 1
}

// check returns an error for options that contradict each other.
func (o *Options) check() error {
	families := map[bool]string{}
	for _, text := range o.Addresses {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("--pod-ip %q is no address", text)
		}
		if other, taken := families[addr.Is4()]; taken {
			return fmt.Errorf("--pod-ip %s and %s are of one family; a pod has one address of each", other, text)
		}
		families[addr.Is4()] = text
	}
	if o.Replace && o.Name == "" {
		return errors.New("--replace needs --name: the pod to be replaced")
	}
	return nil
}

// nameOf returns the beginning of a pod's name, derived from a program's path.
func nameOf(program string) string {
	base := program[strings.LastIndexByte(program, '/')+1:]
	return cmp.Or(spec.LabelFrom(base, 40), "pod")
}

func parsePorts(texts []string) ([]*corev1.ContainerPort, error) {
	var faults []error
	ports := make([]*corev1.ContainerPort, 0, len(texts))
	for _, text := range texts {
		port, err := parsePort(text)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		ports = append(ports, port)
	}
	return ports, errors.Join(faults...)
}

// parsePort parses NAME=NUMBER[/PROTOCOL]. The name may be left out.
func parsePort(text string) (*corev1.ContainerPort, error) {
	name, rest, named := strings.Cut(text, "=")
	if !named {
		name, rest = "", text
	}
	numberText, protocolText, _ := strings.Cut(rest, "/")
	number, err := strconv.ParseUint(numberText, 10, 16)
	if err != nil || number == 0 {
		return nil, fmt.Errorf("port %q: want NAME=NUMBER or NAME=NUMBER/PROTOCOL, such as http=8080", text)
	}
	protocol, ok := spec.ParseEnum[corev1.Protocol](strings.ToUpper(cmp.Or(protocolText, "TCP")))
	if !ok {
		return nil, fmt.Errorf("port %q: protocol %q is not known; protocols are TCP, UDP, SCTP", text, protocolText)
	}
	return &corev1.ContainerPort{Name: name, ContainerPort: int32(number), Protocol: protocol}, nil
}

// probe returns the readiness probe of the options, or nil if there is none.
func (o *Options) probe() (*corev1.Probe, error) {
	var flag, text string
	for _, given := range []struct{ flag, value, prefix string }{
		{"--ready", o.Ready, ""}, {"--ready-tcp", o.ReadyTCP, "tcp://:"}, {"--ready-http", o.ReadyHTTP, "http://:"}, {"--ready-grpc", o.ReadyGRPC, "grpc://:"},
	} {
		switch {
		case given.value == "":
		case flag != "":
			return nil, errors.New("only one of --ready, --ready-tcp, --ready-http and --ready-grpc can be given")
		default:
			flag, text = given.flag, given.prefix+given.value
		}
	}
	if flag == "" {
		return nil, nil
	}
	found, err := probe.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if found.GetPeriodSeconds() == 0 && found.GetTtl() == nil {
		found.PeriodSeconds = 1 // a program that a person starts by hand should be ready at once
	}
	return found, nil
}
