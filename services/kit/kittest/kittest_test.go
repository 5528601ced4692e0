package kittest_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

func TestMain(m *testing.M) { kittest.Main(m) }

func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var got string
	if err := conn.QueryRow(t.Context(), sql).Scan(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

func execute(t *testing.T, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func TestPostgresGivesDatabasesOfTheirOwn(t *testing.T) {
	a, b := kittest.Postgres(t), kittest.Postgres(t)
	execute(t, a, "CREATE TABLE x AS SELECT 1")
	if got := query(t, b, "SELECT count(*)::text FROM pg_tables WHERE tablename = 'x'"); got != "0" {
		t.Errorf("a table of another test's database is seen")
	}
}

func TestPostgresDatabasesGoWithTheirTest(t *testing.T) {
	keep := kittest.Postgres(t)
	var name string
	t.Run("short", func(t *testing.T) {
		name = query(t, kittest.Postgres(t), "SELECT current_database()::text")
	})
	if got := query(t, keep, "SELECT count(*)::text FROM pg_database WHERE datname = '"+name+"'"); got != "0" {
		t.Errorf("database %s is left over", name)
	}
}

func TestClusterSurvivesACrash(t *testing.T) {
	c := kittest.NewCluster(t)
	dsn := c.Database(t)
	execute(t, dsn, "CREATE TABLE x AS SELECT 'kept'::text AS v")
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if conn, err := pgx.Connect(t.Context(), dsn); err == nil {
		conn.Close(t.Context())
		t.Fatal("connected to a stopped server")
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if got := query(t, dsn, "SELECT v FROM x"); got != "kept" {
		t.Errorf("got %q", got)
	}
}

func TestPostgresOfTheEnvironmentIsUsed(t *testing.T) {
	t.Setenv("PORTOLAN_TEST_POSTGRES", "host="+t.TempDir()+" user=nobody")
	fake := &recorder{TB: t}
	func() {
		defer func() { _ = recover() }() // the recorder ends a test by a panic
		kittest.Postgres(fake)
	}()
	if !strings.Contains(fake.said, "postgres: ") {
		t.Errorf("said %q", fake.said)
	}
}

// recorder is a testing.TB that records the message of a failure.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = format
	panic("ended")
}

func TestNATSHasJetStream(t *testing.T) {
	_, url := kittest.NATS(t)
	js, err := jetstream.New(kittest.NATSConn(t, url))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	ack, err := js.Publish(ctx, "s.x", nil)
	if err != nil || ack.Sequence != 1 {
		t.Errorf("got %v %v", ack, err)
	}
}

func TestNATSKeepsItsStreams(t *testing.T) {
	dir := t.TempDir()
	srv, url := kittest.NATSAt(t, dir, -1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	js, err := jetstream.New(kittest.NATSConn(t, url))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	kittest.StopNATS(srv)
	_, url = kittest.NATSAt(t, dir, -1)
	js, err = jetstream.New(kittest.NATSConn(t, url))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Stream(ctx, "S"); err != nil {
		t.Error(err)
	}
}

func TestConnIsAServerLikeTheDaemons(t *testing.T) {
	conn := kittest.Conn(t, func(grpc.ServiceRegistrar) {})
	resp, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("got %v %v", resp, err)
	}
}

func TestEventuallyAndReceive(t *testing.T) {
	tries := 0
	kittest.Eventually(t, "three tries", func() error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	ch := make(chan int, 1)
	ch <- tries
	if got := kittest.Receive(t, "a number", ch); got != 3 {
		t.Errorf("got %d", got)
	}
}

func TestRunStopsOnceAndWaits(t *testing.T) {
	ended := false
	stop := kittest.Run(t, "task", func(ctx context.Context) error {
		<-ctx.Done()
		ended = true
		return ctx.Err()
	})
	stop()
	stop()
	if !ended {
		t.Error("stop did not wait")
	}
}

func TestHostIsComplete(t *testing.T) {
	_, url := kittest.NATS(t)
	host := kittest.Host(t, rpc.TCP(), url)
	nc, err := host.NATS("test")
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if _, err := kittest.Host(t, rpc.TCP(), "").NATS("test"); err == nil {
		t.Error("connected to no server")
	}
	if host.Log == nil || host.Metrics == nil || host.Health == nil || host.Network == nil {
		t.Errorf("got %+v", host)
	}
}

func TestLinesAfterTheEndAreDropped(t *testing.T) {
	var log *slog.Logger
	t.Run("short", func(t *testing.T) { log = kittest.Logger(t) })
	log.Info("late") // would panic without the check
}
