package parity

import (
	"os/exec"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
)

// disruptive has the descriptions that restart daemons, remove state from a node's kernel, or add a
// range of cluster IPs from which other services would get addresses.
var disruptive = []description{
	{"should work after restarting kube-proxy", func(s *scene) {
		node := s.lab.Nodes[0]
		one, p := s.service("one", nil), s.pod("one", 1)
		from := s.client(0).namespace
		s.reaches(from, clusterIP(one, 80), p)
		node.Process.Kill()
		s.reaches(from, clusterIP(one, 80), p) // the kernel continues to forward
		two, q := s.service("two", nil), s.pod("two", 2)
		s.lab.StartAgent(node)
		s.reaches(from, clusterIP(two, 80), q)
		s.reaches(from, clusterIP(one, 80), p)
	}},
	{"should work after restarting apiserver", func(s *scene) {
		one, p := s.service("one", nil), s.pod("one", 1)
		from := s.client(0).namespace
		s.reaches(from, clusterIP(one, 80), p)
		s.lab.Restart("registry")
		s.reaches(from, clusterIP(one, 80), p)
		two, q := s.service("two", nil), s.pod("two", 2)
		s.reaches(from, clusterIP(two, 80), q)
	}},
	{"should recreate its iptables rules if they are deleted", func(s *scene) {
		node := s.lab.Nodes[0]
		if node.ProxyMode != "nftables" {
			s.Skip("allowed: the rules of nftables are those that are deleted")
		}
		svc, p := s.service("web", nil), s.pod("web", 1)
		from := s.client(0).namespace
		s.reaches(from, clusterIP(svc, 80), p)
		err := node.Namespace.Do(func() error { return exec.Command("nft", "flush", "ruleset").Run() })
		if err != nil {
			s.Fatal(err)
		}
		if _, err := get(from, clusterIP(svc, 80)); err == nil {
			s.Error("nothing was deleted")
		}
		// The agent checks every minute. The test makes it check now.
		if _, err := node.Agent.Resync(s.Context(), &nodeagentv1.ResyncRequest{}); err != nil {
			s.Fatal(err)
		}
		s.reaches(from, clusterIP(svc, 80), p)
	}},
	{"should create Services and serve on different Service CIDRs", func(s *scene) {
		pool := &allocatorv1.Pool{Name: "second", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "10.97.0.0/24"}
		c := allocatorv1.NewAllocatorServiceClient(s.lab.Allocator())
		if _, err := c.CreatePool(s.Context(), &allocatorv1.CreatePoolRequest{Pool: pool}); err != nil {
			s.Fatal(err)
		}
		svc := s.service("web", both(nodePort, func(spec *corev1.ServiceSpec) {
			spec.ClusterIp, spec.ClusterIps = "10.97.0.10", []string{"10.97.0.10"}
		}))
		a, b := s.pod("web", 0), s.pod("web", 1)
		for _, from := range s.everywhere() {
			s.reaches(from, clusterIP(svc, 80), a, b)
			s.reaches(from, s.nodeAt(0, svc), a, b)
		}
	}},
}
