package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	rtnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/yardstick"
	"portolan.dev/services/object"
)

var measure = flag.Bool("measure", false, "measure, which takes a minute")

const (
	services  = 10000
	endpoints = 10 // of each service
	rounds    = 400

	// ownEnv marks the process that runs in a network namespace of its own.
	ownEnv = "PORTOLAN_BENCH_NAMESPACE"
)

// TestMain runs the measurements in a network namespace of their own, so that they leave nothing
// behind and disturb no other program.
func TestMain(m *testing.M) {
	flag.Parse()
	if !*measure || os.Getenv(ownEnv) != "" {
		os.Exit(m.Run())
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), ownEnv+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("allowed: measures only when asked to, with -measure")
	}
	if err := loopbackUp(); err != nil {
		t.Fatal(err)
	}
	log := changestest.New(t)
	log.Put(world()...)
	url := log.URL()
	registry := serve(t, log)
	agent := startDaemon(t, "-registry="+registry, "-nats-url="+url, "-nats-prefix="+changestest.Prefix,
		"-node-name=here", "-proxy-mode=nftables", "-strict", "-service-cidr=10.96.0.0/16", "-pod-cidr=10.128.0.0/9")
	agent.applied(t, log.Revision())
	rss, _ := agent.memory()
	fmt.Printf("memory with %d services of %d endpoints: %.0f MB when all is programmed\n", services, endpoints, rss)
	commits(t, log, agent)
	rss, peak := agent.memory()
	fmt.Printf("memory after %d changes: %.0f MB, at most %.0f MB\n", rounds, rss, peak)
	ratio("rss_mb_10k", rss, yardstick.AtMost(150))
}

func ratio(name string, value float64, target yardstick.Target) {
	fmt.Println(yardstick.Line(name, value, target))
}

func loopbackUp() error {
	lo, err := rtnetlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return rtnetlink.LinkSetUp(lo)
}

// commits measures the time from a change of an endpoint in a log in memory until the kernel
// reports that its tables have changed. It also measures the parts: the time until a follower has
// the change, and the time in which the agent plans and programs.
func commits(t *testing.T, log *changestest.Log, agent *daemonProcess) {
	kernel := watchKernel(t)
	heard := make(chan uint64, 1000)
	log.Follow(changes.FollowerConfig{
		NATS: log.NATS(), Kinds: []string{"EndpointSlice"}, VersionsOnly: true, Log: kittest.Logger(t),
		Apply: func(_ context.Context, _ []changes.Change, revision uint64) error {
			heard <- revision
			return nil
		},
	})
	for revision := uint64(0); revision < log.Revision(); {
		revision = <-heard
	}
	syncs, spent := agent.syncs(t)
	var total, stream []float64
	for i := range rounds {
		drain(kernel)
		n, add := i/2, i%2 == 0
		s := slice(n)
		if add { // the next round removes it again
			s.Endpoints = append(s.Endpoints, endpoint(services*endpoints+n))
		}
		began := time.Now()
		revision := log.Put(s)
		for seen := uint64(0); seen < revision; {
			seen = <-heard
		}
		stream = append(stream, ms(time.Since(began)))
		select {
		case at := <-kernel:
			total = append(total, ms(at.Sub(began)))
		case <-time.After(time.Minute):
			t.Fatal("the kernel was not told")
		}
		agent.applied(t, revision)
	}
	syncs2, spent2 := agent.syncs(t)
	fmt.Printf("stream to kernel: p50 %.2f ms, p99 %.2f ms; of it until a follower has it p50 %.2f ms, p99 %.2f ms; planning and programming %.2f ms in the mean\n",
		quantile(total, 0.5), quantile(total, 0.99), quantile(stream, 0.5), quantile(stream, 0.99), 1000*(spent2-spent)/max(1, syncs2-syncs))
	ratio("stream_to_kernel_p50_ms", quantile(total, 0.5), yardstick.Target{})
	ratio("stream_to_kernel_p99_ms", quantile(total, 0.99), yardstick.AtMost(50))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func quantile(list []float64, q float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[min(int(q*float64(len(list))), len(list)-1)]
}

func drain(c <-chan time.Time) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}

// watchKernel returns a channel with the times of changes of nftables.
func watchKernel(t *testing.T) <-chan time.Time {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{Groups: 1 << (unix.NFNLGRP_NFTABLES - 1)})
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan time.Time, 1000)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			_, err := conn.Receive()
			if err != nil && !errors.Is(err, unix.ENOBUFS) {
				return
			}
			select {
			case changed <- time.Now():
			default:
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-over
	})
	return changed
}

func world() []object.Object {
	var all []object.Object
	for n := range services {
		all = append(all, service(n), slice(n))
	}
	return all
}

func name(n int) string { return fmt.Sprintf("service-%d", n) }

func service(n int) *corev1.Service {
	ip := netip.AddrFrom4([4]byte{10, 96, byte(n >> 8), byte(n)}).String()
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: fmt.Sprintf("ns-%d", n%50), Name: name(n)},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP, ClusterIp: ip, ClusterIps: []string{ip},
			Selector: map[string]string{"app": name(n)},
			Ports:    []*corev1.ServicePort{{Name: "http", Protocol: corev1.Protocol_PROTOCOL_TCP, Port: 80}},
		},
	}
}

func slice(n int) *corev1.EndpointSlice {
	http, port := "http", int32(8080)
	s := &corev1.EndpointSlice{
		Metadata: &corev1.ObjectMeta{
			Namespace: fmt.Sprintf("ns-%d", n%50), Name: name(n) + "-1", Labels: map[string]string{"kubernetes.io/service-name": name(n)},
		},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports:       []*corev1.EndpointPort{{Name: &http, Protocol: corev1.Protocol_PROTOCOL_TCP, Port: &port}},
	}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, endpoint(n*endpoints+i))
	}
	return s
}

func endpoint(n int) *corev1.Endpoint {
	ready, node := true, fmt.Sprintf("node-%d", n%100)
	return &corev1.Endpoint{
		Addresses:  []string{netip.AddrFrom4([4]byte{10, 128 | byte(n>>16), byte(n >> 8), byte(n)}).String()},
		Conditions: &corev1.EndpointConditions{Ready: &ready, Serving: &ready},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: fmt.Sprintf("ns-%d", n/endpoints%50), Name: fmt.Sprintf("pod-%d", n)},
		NodeName:   &node,
	}
}
