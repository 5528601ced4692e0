package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/identity"
)

// stream is the name of the change stream under the default prefix.
const stream = "portolan_CHG"

// Main runs the tests of a package and exits. TestMain of each package that uses a lab calls it.
func Main(m *testing.M) { labtest.Main(m, labtest.Program{Name: "nats", Main: natsMain}) }

// monitorPort is the port of a NATS server's HTTP monitoring endpoint.
const monitorPort = 8222

// natsMain is the main function of a NATS server's process. It returns the exit code.
func natsMain() int {
	path := flag.String("config", "", "path of the configuration file")
	flag.Parse()
	options, err := server.ProcessConfigFile(*path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	srv, err := server.NewServer(options)
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
		folder := l.TempDir()
		config := filepath.Join(folder, "nats.conf")
		var m *Machine
		m = l.addMachine(name, folder, func() *labtest.Process {
			if err := l.writeBrokerConfig(m, config); err != nil {
				l.Fatalf("%s: %v", name, err)
			}
			return labtest.Start(l, name, "nats", m.Namespace, []string{"-config", config})
		}, func() error { return l.streamReady() })
		m.Disk = l.mountDisk(name)
		l.brokers = append(l.brokers, m)
	}
}

// brokerConfig is the configuration of a NATS server, in addition to the output of portolan certs
// nats-config. max_file_store is larger than the disk. A server closes the connection of a peer
// that does not answer two pings, which are two seconds apart.
const brokerConfig = `
server_name: %[1]q
listen: "%[2]s:4222"
http: "%[2]s:%[4]d"
ping_interval: "2s"
ping_max: 2
jetstream { store_dir: %[3]q, max_file_store: 1GB }
`

// writeBrokerConfig writes the configuration file of a NATS server. It permits the tests' identity
// everything.
func (l *Lab) writeBrokerConfig(m *Machine, path string) error {
	var routes []string
	for _, other := range l.brokers {
		routes = append(routes, fmt.Sprintf("%s:6222", other.Addresses[0]))
	}
	access, err := labtest.NATSClusterConfig(l.certificates.folder, filepath.Dir(path), nodeNames(), fmt.Sprintf("%s:6222", m.Addresses[0]), routes)
	if err != nil {
		return err
	}
	access = strings.Replace(access, "users: [", fmt.Sprintf("users: [\n    { user: %q }", l.Identity.ID()), 1)
	own := fmt.Sprintf(brokerConfig, m.Name, m.Addresses[0], m.Disk, monitorPort)
	return os.WriteFile(path, []byte(access+own), 0o600)
}

// natsURL returns the URLs of the given NATS servers, separated by commas.
func natsURL(servers ...*Machine) string {
	var all []string
	for _, m := range servers {
		all = append(all, fmt.Sprintf("nats://%s:4222", m.Addresses[0]))
	}
	return strings.Join(all, ",")
}

// withNATS calls fn with a connection to the NATS servers.
func (l *Lab) withNATS(fn func(nc *nats.Conn) error) error {
	nc, err := nats.Connect(natsURL(l.brokers...), nats.Timeout(2*time.Second), nats.NoReconnect(), nats.Secure(l.Identity.TLS(identity.NATS)))
	if err != nil {
		return err
	}
	defer nc.Close()
	return fn(nc)
}

// streamReady returns an error if the change stream has no leader.
func (l *Lab) streamReady() error {
	return l.withNATS(func(nc *nats.Conn) error {
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

// StepDown makes another NATS server the leader of the change stream.
func (l *Lab) StepDown() error {
	return l.withNATS(func(nc *nats.Conn) error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil)
		return err
	})
}

// Diverge publishes a message to the change stream that the log lacks. The stream is then ahead of
// the log, as after the restore of an older database. The log gets another epoch, so every follower
// takes a snapshot.
func (l *Lab) Diverge() error {
	return l.withNATS(func(nc *nats.Conn) error {
		js, err := nc.JetStream(nats.MaxWait(2 * time.Second))
		if err != nil {
			return err
		}
		_, err = js.Publish(changes.DefaultPrefix+".chg.Foreign.none.none", nil)
		return err
	})
}

// LoseStream kills all NATS servers and deletes their data. The caller has to start them again.
func (l *Lab) LoseStream() error {
	var errs []error
	for _, m := range l.brokers {
		errs = append(errs, m.LoseDisk())
	}
	return errors.Join(errs...)
}
