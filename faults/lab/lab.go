package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// stepTimeout is the time after which a step counts as failed. It is long because the machine that
// runs the tests may be busy.
const stepTimeout = 60 * time.Second

// Lab is a running installation. Only one goroutine at a time may start and end faults.
type Lab struct {
	testing.TB
	Network *labtest.Network
	// Clients is the machine that clients connect from. No process runs there, so it can be cut
	// off, but not killed or paused.
	Clients     *Machine
	Nodes       []*Node
	machines    []*Machine
	postgres    [2]*postgres // the primary is the first element
	brokers     []*Machine
	impairments map[impairment]int  // the number of calls of impair that have not ended
	user        *syscall.Credential // Postgres runs as this user; nil: the user of the tests
	// Identity is the identity of the tests, which have the role Operator.
	Identity      *identity.Source
	certificates  certificates
	releaseFolder string // folder with the daemons of the previous release; empty: not built
	leftovers     leftovers
}

// Node is a machine with a node agent.
type Node struct {
	*Machine
	ProxyMode    string
	initialState map[string]bool  // state of the namespace before the first agent started
	conn         *grpc.ClientConn // connection to the agent; nil: Agent was not called yet
}

// Install starts an installation and waits until everything is ready.
func Install(t testing.TB) *Lab {
	t.Helper()
	labtest.Need(t)
	user, err := kittest.PostgresUser()
	if err != nil {
		t.Fatal(err)
	}
	l := &Lab{TB: t, impairments: map[impairment]int{}, user: user}
	l.failOnLeftovers()
	l.Network = labtest.NewNetwork(t)
	if err := l.nft(fmt.Sprintf(filterRules, lossPercent)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.nft("delete table inet nemesis\n"); err != nil {
			t.Error(err)
		}
	})
	l.makeCertificates()
	l.Network.ServeBackends(workload.Ports)
	l.Clients = &Machine{Name: "clients"}
	l.addNamespace(l.Clients)
	l.postgres = [2]*postgres{l.addPostgres("postgres-0"), l.addPostgres("postgres-1")}
	l.addBrokers("nats-0", "nats-1", "nats-2")
	l.addDaemons()
	if err := l.startPostgres(); err != nil {
		t.Fatalf("postgres: %v", err)
	}
	for _, m := range l.machines[len(l.postgres):] {
		m.Start()
	}
	if err := l.AwaitReady(); err != nil {
		t.Fatal(err)
	}
	return l
}

// addMachine adds a machine, and writes its certificate to the folder. The function start starts
// the process, and ready returns an error if the process is not ready.
func (l *Lab) addMachine(name, folder string, start func() *labtest.Process, ready func() error) *Machine {
	l.Helper()
	m := &Machine{Name: name, lab: l, start: start, ready: ready, id: identityOf(name)}
	m.files = certificateFiles(folder, m.id.Role)
	l.addNamespace(m)
	if err := errors.Join(m.updateTrust(), m.Rotate()); err != nil {
		l.Fatalf("%s: %v", name, err)
	}
	l.machines = append(l.machines, m)
	return m
}

// Machine returns the machine with the given name, or nil if there is none.
func (l *Lab) Machine(name string) *Machine {
	if name == l.Clients.Name {
		return l.Clients
	}
	for _, m := range l.machines {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Machines returns all machines with processes, in the order in which they were started.
func (l *Lab) Machines() []*Machine { return l.machines }

// AwaitReady waits until all processes report that they are ready.
func (l *Lab) AwaitReady() error {
	errs := make([]error, len(l.machines))
	var wg sync.WaitGroup
	for n, m := range l.machines {
		wg.Go(func() { errs[n] = eventually(m.Ready) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// eventually calls cond until cond returns nil or stepTimeout has passed. It returns the last
// error.
func eventually(cond func() error) error {
	for deadline := time.Now().Add(stepTimeout); ; <-time.After(20 * time.Millisecond) {
		err := cond()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// Dial returns a connection from the hub to the named daemon. If there are several names, the
// connection uses any of these daemons. Cuts do not affect it.
func (l *Lab) Dial(names ...string) *grpc.ClientConn { return l.dial(nil, names) }

// DialFrom is like Dial, but connects from a machine. Cuts affect the connection.
func (l *Lab) DialFrom(from *Machine, names ...string) *grpc.ClientConn { return l.dial(from, names) }

func (l *Lab) dial(from *Machine, names []string) *grpc.ClientConn {
	l.Helper()
	options := []grpc.DialOption{l.Identity.DialOption(identity.Role(programOf(names[0])))}
	if from != nil {
		options = append(options, grpc.WithContextDialer(dialerIn(from.Namespace)))
	}
	conn, err := rpc.TCP().Dial(l.apiAddresses(names...), options...)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = conn.Close() })
	return conn
}

// dialerIn returns a dialer that opens TCP connections in a namespace.
func dialerIn(ns *topology.Namespace) func(ctx context.Context, addr string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (conn net.Conn, err error) {
		err = ns.Do(func() error {
			conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr)
			return err
		})
		return conn, err
	}
}
