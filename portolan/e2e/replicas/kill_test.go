package replicas

import (
	"math/rand/v2"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// TestKilledReplicas kills one of two registries again and again while 64 clients write.
func TestKilledReplicas(t *testing.T) {
	const kills, clients, between = 20, 64, 10
	i := install(t, kittest.Postgres(t), brokers(t, 1), 2)
	l := startLoad(t, i.replicas, clients)
	for range kills {
		l.awaitAcks(between, i.replicas...)
		r := i.replicas[rand.IntN(len(i.replicas))]
		r.kill()
		r.start()
	}
	l.awaitAcks(between, i.replicas...)
	l.stop()
	i.judge(l)
}

// TestClusterOfThree stops each of three NATS servers in turn while clients write on two
// registries, one of which is also killed.
func TestClusterOfThree(t *testing.T) {
	const clients, between = 16, 10
	nats := brokers(t, 3)
	i := install(t, kittest.Postgres(t), nats, 2)
	l := startLoad(t, i.replicas, clients)
	for n, b := range nats {
		l.awaitAcks(between, i.replicas...)
		b.stop()
		l.awaitAcks(between, i.replicas...)
		if n == 1 {
			i.replicas[0].kill()
			i.replicas[0].start()
		}
		b.start()
		b.awaitReady()
	}
	l.awaitAcks(between, i.replicas...)
	l.stop()
	i.judge(l)
}
