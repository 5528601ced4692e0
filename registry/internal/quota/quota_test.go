package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/object"
)

// start returns rates of 10 writes and 10 KiB per second with a clock that advance moves.
func start() (rates *Rates, advance func(time.Duration)) {
	rates = New(map[identity.Role]Limits{identity.NodeAgent: {Writes: 10, Bytes: 10 << 10}, identity.Workload: {Writes: 2, Bytes: 1 << 10}, identity.Registrar: {Writes: 10, Bytes: 10 << 10}}, obs.NewMetrics())
	now := time.Unix(0, 0)
	rates.now = func() time.Time { return now }
	return rates, func(d time.Duration) { now = now.Add(d) }
}

func agent(name string) identity.ID {
	return identity.ID{TrustDomain: "portolan", Role: identity.NodeAgent, Name: name}
}

// admitted writes objects of the given size until one is refused, and returns their number.
func admitted(t *testing.T, rates *Rates, id identity.ID, size int, limit string) int {
	t.Helper()
	for n := range 10_000 {
		if err := rates.admit(id, size); err != nil {
			if apierr.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), id.String()) || !strings.Contains(err.Error(), limit) {
				t.Errorf("the error does not name %s and its limit %s: %v", id, limit, err)
			}
			if wait, ok := apierr.RetryAfter(err); !ok || wait <= 0 {
				t.Errorf("the error does not say when to try again: %v", err)
			}
			return n
		}
	}
	t.Fatalf("%s writes without a limit", id)
	return 0
}

func TestEachIdentityHasItsRate(t *testing.T) {
	rates, advance := start()
	if n := admitted(t, rates, agent("n1"), 100, "agent-write-rate allows 10 writes per second"); n != 200 {
		t.Errorf("%d small writes at once, want those of 20 s", n)
	}
	if n := admitted(t, rates, agent("n2"), 4<<10, "agent-write-bytes allows 10 KiB per second"); n != 50 {
		t.Errorf("%d large writes at once, want 200 KiB", n)
	}
	advance(2 * time.Second)
	if n := admitted(t, rates, agent("n1"), 100, "agent-write-rate"); n != 20 {
		t.Errorf("%d small writes after 2 s, want 20", n)
	}
	if n := admitted(t, rates, agent("n2"), 4<<10, "agent-write-bytes"); n != 5 {
		t.Errorf("%d large writes after 2 s, want 5", n)
	}
	if got := testutil.ToFloat64(rates.throttle.WithLabelValues("nodeagent", "bytes")); got != 2 {
		t.Errorf("%v refusals because of bytes are counted, want 2", got)
	}
}

// TestAdmitCountsTheSizeOfTheObject writes objects and deletions as an agent. If the size were not counted, an agent
// could fill the log with its rate of writes, each with an object of the largest size.
func TestAdmitCountsTheSizeOfTheObject(t *testing.T) {
	rates, _ := start()
	node := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: strings.Repeat("n", 4<<10)}}
	for name, c := range map[string]struct {
		object object.Object
		id     identity.ID
		want   int
	}{
		"objects of 4 KiB":          {node, agent("n1"), 49}, // they are a little larger
		"deletions":                 {nil, agent("n2"), 200},
		"objects of another's role": {node, identity.ID{TrustDomain: "portolan", Role: identity.Operator}, 1000},
	} {
		ctx, n := identity.Represent(t.Context(), c.id), 0
		for n < 1000 && rates.Admit(ctx, c.object) == nil {
			n++
		}
		if n != c.want {
			t.Errorf("%s: %d writes at once, want %d", name, n, c.want)
		}
	}
}

// TestRefusedWritesDoNotCount checks that a writer that goes on regardless gets its rate all the
// same.
func TestRefusedWritesDoNotCount(t *testing.T) {
	rates, advance := start()
	total := admitted(t, rates, agent("n1"), 4<<10, "agent-write-bytes")
	for range 100 {
		advance(100 * time.Millisecond)
		total += admitted(t, rates, agent("n1"), 4<<10, "agent-write-bytes")
	}
	if want := (20 + 10) * 10 / 4; total != want {
		t.Errorf("%d writes in 10 s, want %d", total, want)
	}
}

func TestObjectLargerThanTheBurst(t *testing.T) {
	rates, _ := start()
	if err := rates.admit(agent("n1"), 1<<20); err != nil {
		t.Errorf("an object larger than the burst can never be written: %v", err)
	}
	if err := rates.admit(agent("n1"), 1); err == nil {
		t.Error("the object did not cost the burst")
	}
}

// TestIdleWritersAreForgotten checks that memory does not grow with the number of identities that
// ever wrote, and that a writer is not forgotten to its advantage.
func TestIdleWritersAreForgotten(t *testing.T) {
	rates, advance := start()
	admitted(t, rates, agent("busy"), 4<<10, "agent-write-bytes")
	for n := range 20 * maxIdle {
		if err := rates.admit(agent(fmt.Sprintf("n%d", n)), 100); err != nil {
			t.Fatal(err)
		}
		if n%(2*maxIdle) == 0 {
			advance(time.Second)
		}
		if len(rates.writers) > 4*maxIdle {
			t.Fatalf("%d writers are kept", len(rates.writers))
		}
	}
	if err := rates.admit(agent("busy"), 200<<10); err == nil {
		t.Error("a writer is forgotten before it has its burst again")
	}
}
