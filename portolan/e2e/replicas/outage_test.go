package replicas

import (
	"fmt"
	"strings"
	"testing"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
)

// outage is how long Postgres is stopped: longer than a registry takes to report that it is behind.
const outage = 10 * time.Second

// TestPostgresAway stops Postgres under load for ten seconds. It checks that writes are refused
// with the time to retry, that reads continue, and that everything recovers without a restart.
func TestPostgresAway(t *testing.T) {
	const clients, some = 64, 20
	postgres := kittest.NewCluster(t)
	i := install(t, postgres.Database(t), brokers(t, 1), 2)
	if _, err := i.replicas[0].services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("read-meanwhile")}); err != nil {
		t.Fatal(err)
	}
	at := i.replicas[0].head()
	l := startLoad(t, i.replicas, clients)
	l.awaitAcks(some, i.replicas...)
	if err := postgres.Stop(); err != nil {
		t.Fatal(err)
	}
	over := time.After(outage)
	l.awaitRefusals(some, i.replicas...)
	kittest.Receive(t, "the end of the outage", over)
	for _, r := range i.replicas {
		kittest.Eventually(t, r.name+" says that its view is behind", func() error {
			if ok, text := r.ready(); ok || !strings.Contains(text, "view") {
				return fmt.Errorf("ready %v: %s", ok, text)
			}
			return nil
		})
		if age := r.metric("portolan_registry_view_age_seconds"); age < 3 {
			t.Errorf("%s: its view is said to be %g s old", r.name, age)
		}
		if _, err := r.services.GetService(within(t), &registryv1.GetServiceRequest{Name: "read-meanwhile", MinRevision: at}); err != nil {
			t.Errorf("%s: get without Postgres: %v", r.name, err)
		}
		if all, err := r.list(0); err != nil || all["read-meanwhile"] == nil {
			t.Errorf("%s: list without Postgres: %d services, %v", r.name, len(all), err)
		}
	}
	if err := postgres.Start(); err != nil {
		t.Fatal(err)
	}
	l.awaitAcks(some, i.replicas...)
	l.stop()
	for _, r := range i.replicas {
		kittest.Eventually(t, r.name+" is ready again", func() error {
			if ok, text := r.ready(); !ok {
				return fmt.Errorf("not ready: %s", text)
			}
			return nil
		})
	}
	i.judge(l)
}

// TestNATSRestarts stops NATS under load and starts it again, several times. It checks that no
// write fails.
func TestNATSRestarts(t *testing.T) {
	const clients, restarts, some = 64, 3, 20
	nats := brokers(t, 1)
	i := install(t, kittest.Postgres(t), nats, 2)
	l := startLoad(t, i.replicas, clients)
	for range restarts {
		l.awaitAcks(some, i.replicas...)
		nats[0].stop()
		l.awaitAcks(some, i.replicas...)
		nats[0].start()
	}
	l.awaitAcks(some, i.replicas...)
	l.stop()
	for _, e := range l.entries {
		if e.err != nil {
			t.Errorf("write %s%s: %v", e.mark, e.uid, e.err)
		}
	}
	i.judge(l)
}

// TestReadYourWrites checks that the replica that stored a write returns it, and that any other
// replica does if its revision is requested.
func TestReadYourWrites(t *testing.T) {
	const clients, rounds = 16, 5
	i := install(t, kittest.Postgres(t), brokers(t, 1), 2)
	t.Run("both", func(t *testing.T) {
		for client := range clients {
			t.Run(fmt.Sprint(client), func(t *testing.T) {
				t.Parallel()
				writer, reader := i.replicas[client%2], i.replicas[1-client%2]
				for round := range rounds {
					readYourWrite(t, writer, reader, fmt.Sprintf("c%d-%d", client, round))
				}
			})
		}
	})
	t.Run("a read waits for a revision that is still to come", func(t *testing.T) {
		answer := make(chan error, 1)
		ahead := i.replicas[1].head() + 1
		go func() {
			_, err := i.replicas[1].services.GetService(within(t), &registryv1.GetServiceRequest{Name: "last", MinRevision: ahead})
			answer <- err
		}()
		if _, err := i.replicas[0].services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("last")}); err != nil {
			t.Fatal(err)
		}
		if err := kittest.Receive(t, "the answer", answer); err != nil {
			t.Error(err)
		}
	})
}

func readYourWrite(t *testing.T, writer, reader *replica, name string) {
	created, err := writer.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web(name)})
	if err != nil {
		t.Fatal(err)
	}
	svc := created.GetService()
	at := svc.GetMetadata().GetResourceVersion()
	for _, read := range []struct {
		from *replica
		min  uint64
	}{{writer, 0}, {reader, at}} {
		got, err := read.from.services.GetService(within(t), &registryv1.GetServiceRequest{Name: name, MinRevision: read.min})
		if err != nil || !got.GetService().EqualVT(svc) {
			t.Errorf("%s at revision %d: %v, %v, want %v", read.from.name, read.min, got.GetService(), err, svc)
		}
	}
	if all, err := reader.list(at); err != nil || !all[name].EqualVT(svc) {
		t.Errorf("%s lists %v at revision %d: %v", reader.name, all[name], at, err)
	}
	deleted, err := writer.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: name})
	if err != nil || deleted.GetService() == nil {
		t.Fatal(err)
	}
	if _, err := writer.services.GetService(within(t), &registryv1.GetServiceRequest{Name: name}); !apierr.IsNotFound(err) {
		t.Errorf("%s has what it deleted: %v", writer.name, err)
	}
}
