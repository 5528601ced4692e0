package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"portolan.dev/portolan/e2e/labtest"
)

// stream is the name of the change stream under the default prefix.
const stream = "portolan_CHG"

// Main is what TestMain of a package with a lab calls. It does not return.
func Main(m *testing.M) { labtest.Main(m, labtest.Program{Name: "nats", Main: natsMain}) }

// natsMain is the program of a NATS server.
func natsMain() int {
	host, name := flag.String("addr", "", "address"), flag.String("name", "", "name of the server")
	dir, routes := flag.String("store", "", "folder of the streams"), flag.String("routes", "", "addresses of the others")
	flag.Parse()
	o := &server.Options{
		ServerName: *name, Host: *host, Port: 4222, JetStream: true, StoreDir: *dir,
		JetStreamMaxStore: 1 << 30, // what the stream asks for, though it never has as much
		Cluster:           server.ClusterOpts{Name: "portolan", Host: *host, Port: 6222},
		PingInterval:      2 * time.Second, MaxPingsOut: 2, // peers that fell silent are given up after seconds
	}
	for peer := range strings.SplitSeq(*routes, ",") {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: peer + ":6222"})
	}
	srv, err := server.NewServer(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	srv.ConfigureLogger()
	srv.Start()
	srv.WaitForShutdown()
	return 0
}

func (l *Lab) addBrokers(names ...string) {
	l.Helper()
	for _, name := range names {
		var m *Machine
		m = l.addMachine(name, func() *labtest.Process {
			return labtest.Start(l, name, "nats", m.Namespace, []string{
				"-addr", m.Addresses[0].String(), "-name", name, "-store", m.Disk, "-routes", strings.Join(l.others(name), ","),
			})
		}, func() error { return l.streamReady() })
		m.Disk = l.disk(name)
		l.brokers = append(l.brokers, m)
	}
}

// others are the addresses of the other NATS servers.
func (l *Lab) others(name string) []string {
	var all []string
	for _, m := range l.brokers {
		if m.Name != name {
			all = append(all, m.Addresses[0].String())
		}
	}
	return all
}

func (l *Lab) natsURL() string {
	var all []string
	for _, m := range l.brokers {
		all = append(all, fmt.Sprintf("nats://%s:4222", m.Addresses[0]))
	}
	return strings.Join(all, ",")
}

// natsDo has fn speak to the NATS servers.
func (l *Lab) natsDo(fn func(nc *nats.Conn) error) error {
	nc, err := nats.Connect(l.natsURL(), nats.Timeout(2*time.Second), nats.NoReconnect())
	if err != nil {
		return err
	}
	defer nc.Close()
	return fn(nc)
}

// streamReady returns an error as long as the change stream has no leader.
func (l *Lab) streamReady() error {
	return l.natsDo(func(nc *nats.Conn) error {
		js, err := nc.JetStream(nats.MaxWait(2 * time.Second))
		if err != nil {
			return err
		}
		info, err := js.StreamInfo(stream)
		if err == nil && (info.Cluster == nil || info.Cluster.Leader == "") {
			err = errors.New("the stream has no leader")
		}
		return err
	})
}

// StepDown has the leader of the change stream give its office to another NATS server.
func (l *Lab) StepDown() error {
	return l.natsDo(func(nc *nats.Conn) error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil)
		return err
	})
}

// LoseStream kills all NATS servers and deletes their data. They do not run afterwards.
func (l *Lab) LoseStream() error {
	var errs []error
	for _, m := range l.brokers {
		errs = append(errs, m.Kill())
		entries, err := os.ReadDir(m.Disk)
		errs = append(errs, err)
		for _, e := range entries {
			errs = append(errs, os.RemoveAll(filepath.Join(m.Disk, e.Name())))
		}
	}
	return errors.Join(errs...)
}
