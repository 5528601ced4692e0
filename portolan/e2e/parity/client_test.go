package parity

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/kerneltest/topology"
)

// Times of a client.
const (
	// answerTime bounds a client's wait for an answer. No packet is lost between namespaces.
	answerTime = 3 * time.Second
	// silence is how long a client waits before it concludes that no answer comes.
	silence = 300 * time.Millisecond
	// long is the size of a large request, in bytes.
	long = 1 << 20
)

// answer is a server's answer.
type answer struct {
	pod    string
	port   uint16
	client netip.AddrPort // as the server sees it
	size   int            // of the datagram
}

func parse(line string) (a answer, err error) {
	var client string
	_, err = fmt.Sscan(line, &a.pod, &a.port, &client)
	if err == nil {
		a.client, err = netip.ParseAddrPort(client)
	}
	return a, err
}

// connect makes a connection from a namespace and returns the server's answer.
func connect(from *topology.Namespace, to netip.AddrPort) (net.Conn, answer, error) {
	var conn net.Conn
	err := from.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", to.String(), answerTime)
		return err
	})
	if err != nil {
		return nil, answer{}, err
	}
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, answer{}, err
	}
	line, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	if err != nil {
		_ = conn.Close()
		return nil, answer{}, err
	}
	a, err := parse(line)
	return conn, a, err
}

// get asks once by TCP.
func get(from *topology.Namespace, to netip.AddrPort) (answer, error) {
	conn, a, err := connect(from, to)
	if err == nil {
		_ = conn.Close()
	}
	return a, err
}

// socket opens a UDP socket in a namespace for one destination, from a source port. Source port 0
// stands for any.
func socket(from *topology.Namespace, to netip.AddrPort, source uint16) (net.Conn, error) {
	var conn net.Conn
	err := from.Do(func() (err error) {
		local := &net.UDPAddr{Port: int(source)}
		conn, err = net.DialUDP("udp", local, net.UDPAddrFromAddrPort(to))
		return err
	})
	return conn, err
}

// send sends a datagram and returns the answer.
func send(conn net.Conn, size int, patience time.Duration) (answer, error) {
	if _, err := conn.Write(make([]byte, size)); err != nil {
		return answer{}, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return answer{}, err
	}
	buffer := make([]byte, 200)
	n, err := conn.Read(buffer)
	if err != nil {
		return answer{}, err
	}
	a, err := parse(string(buffer[:n]))
	if err == nil {
		_, err = fmt.Sscan(strings.Fields(string(buffer[:n]))[3], &a.size)
	}
	return a, err
}

// getUDP asks once by UDP, from a port of its own.
func getUDP(from *topology.Namespace, to netip.AddrPort) (answer, error) {
	conn, err := socket(from, to, 0)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = conn.Close() }()
	return send(conn, 10, answerTime)
}

// asker asks once and returns the answer.
type asker func(from *topology.Namespace, to netip.AddrPort) (answer, error)

// reaches waits until exactly these pods answer a client.
func (s *scene) reaches(from *topology.Namespace, to netip.AddrPort, pods ...*pod) {
	s.Helper()
	s.reachesBy(get, from, to, pods...)
}

func (s *scene) reachesBy(ask asker, from *topology.Namespace, to netip.AddrPort, pods ...*pod) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s answers by %s", to, podNames(pods)), func() error {
		got := map[string]bool{}
		for range 8 * len(pods) { // planes that pick at random need several tries
			a, err := ask(from, to)
			if err != nil {
				return err
			}
			got[a.pod] = true
			if !slices.ContainsFunc(pods, func(p *pod) bool { return p.name == a.pod }) {
				return fmt.Errorf("%s answers", a.pod)
			}
			if len(got) == len(pods) {
				return nil
			}
		}
		return fmt.Errorf("only %v answer", got)
	})
}

func podNames(pods []*pod) []string {
	var all []string
	for _, p := range pods {
		all = append(all, p.name)
	}
	return all
}

// refused waits until connections are refused.
func (s *scene) refused(from *topology.Namespace, to netip.AddrPort) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s refuses", to), func() error {
		if _, err := get(from, to); !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("a connection ends with %w", orSuccess(err))
		}
		return nil
	})
}

// dropped waits until connections get no answer.
func (s *scene) dropped(from *topology.Namespace, to netip.AddrPort) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s is silent", to), func() error {
		err := from.Do(func() error {
			conn, err := net.DialTimeout("tcp", to.String(), silence)
			if err == nil {
				_ = conn.Close()
			}
			return err
		})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("a connection ends with %w", orSuccess(err))
		}
		return nil
	})
}

func orSuccess(err error) error {
	if err == nil {
		return errors.New("success")
	}
	return err
}

// everywhere returns clients on all nodes: the nodes themselves, and a pod on each.
func (s *scene) everywhere() []*topology.Namespace {
	s.Helper()
	var all []*topology.Namespace
	for n, node := range s.lab.Nodes {
		all = append(all, node.Namespace, s.client(n).namespace)
	}
	return all
}

// Addresses of a service.

func clusterIP(svc *corev1.Service, port int32) netip.AddrPort {
	return at(svc.GetSpec().GetClusterIp(), port)
}

func at(ip string, port int32) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), uint16(port))
}

// nodeAt returns the node port of a service's first port on a node.
func (s *scene) nodeAt(node int, svc *corev1.Service) netip.AddrPort {
	return netip.AddrPortFrom(s.lab.Nodes[node].Addresses[0], uint16(svc.GetSpec().GetPorts()[0].GetNodePort()))
}
