package replicas

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/kittest"
)

// judge checks an installation after a load has stopped, for consistency and against the responses
// that the load's clients got.
func (i *installation) judge(l *load) {
	i.t.Helper()
	log := i.log()
	final, err := replay(log)
	if err := errors.Join(err, l.compare(log)); err != nil {
		i.t.Error(err)
	}
	head := uint64(len(log))
	for _, r := range i.replicas {
		got, err := r.list(head)
		if err != nil {
			i.t.Errorf("%s: %v", r.name, err)
		} else if err := same(final, got); err != nil {
			i.t.Errorf("%s differs from the log: %v", r.name, err)
		}
	}
	i.judgeStream(log)
	i.t.Logf("%d revisions, %d services in the end", head, len(final))
}

// log reads the log of changes from the beginning. It checks that every revision is there once.
func (i *installation) log() []*registryv1.Change {
	i.t.Helper()
	r := i.replicas[0]
	var log []*registryv1.Change
	for head := r.head(); uint64(len(log)) < head; {
		answer, err := r.changes.ListChanges(within(i.t), &registryv1.ListChangesRequest{AfterRevision: uint64(len(log)), Limit: 1000})
		if err != nil {
			i.t.Fatal(err)
		}
		for _, change := range answer.GetChanges() {
			if change.GetRevision() != uint64(len(log))+1 {
				i.t.Fatalf("revision %d follows %d in the log", change.GetRevision(), len(log))
			}
			log = append(log, change)
		}
	}
	return log
}

// replay returns the services that result from the log. At no revision may two services have one
// address, or a service be incomplete.
func replay(log []*registryv1.Change) (map[string]*corev1.Service, error) {
	services, owners := map[string]*corev1.Service{}, map[string]string{}
	var errs []error
	for _, change := range log {
		svc := change.GetObject().GetService()
		if svc == nil {
			continue
		}
		name := svc.GetMetadata().GetName()
		if old := services[name]; old != nil {
			delete(owners, old.GetSpec().GetClusterIp())
			delete(services, name)
		}
		if change.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE {
			continue
		}
		ip := svc.GetSpec().GetClusterIp()
		if ip == "" || svc.GetMetadata().GetUid() == "" || len(svc.GetSpec().GetPorts()) != 1 || svc.GetSpec().GetSelector()["app"] != name {
			errs = append(errs, fmt.Errorf("revision %d is half a service: %v", change.GetRevision(), svc))
		}
		if other, taken := owners[ip]; taken {
			errs = append(errs, fmt.Errorf("revision %d: %s and %s both have %s", change.GetRevision(), name, other, ip))
		}
		services[name], owners[ip] = svc, name
	}
	return services, errors.Join(errs...)
}

// compare checks that the log has every acknowledged write at the acknowledged revision, and no
// write twice.
func (l *load) compare(log []*registryv1.Change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	writes, deletions := map[string]uint64{}, map[string]uint64{}
	var errs []error
	for _, change := range log {
		meta, logged := change.GetObject().GetService().GetMetadata(), writes
		id := meta.GetLabels()[markLabel]
		if change.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE {
			id, logged = meta.GetUid(), deletions
		}
		if first, twice := logged[id]; twice && id != "" {
			errs = append(errs, fmt.Errorf("revisions %d and %d are the same write %s", first, change.GetRevision(), id))
		}
		logged[id] = change.GetRevision()
	}
	acked := 0
	for _, e := range l.entries {
		switch {
		case e.err != nil:
			continue
		case e.mark != "" && writes[e.mark] != e.revision:
			errs = append(errs, fmt.Errorf("write %s was acknowledged as revision %d, the log has it as %d", e.mark, e.revision, writes[e.mark]))
		case e.mark == "" && deletions[e.uid] == 0:
			errs = append(errs, fmt.Errorf("the deletion of %s was acknowledged and is not in the log", e.uid))
		}
		acked++
	}
	l.t.Logf("%d writes acknowledged, %d not", acked, len(l.entries)-acked)
	return errors.Join(errs...)
}

// same compares services, including their revisions.
func same(want, got map[string]*corev1.Service) error {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !want[name].EqualVT(got[name]) {
			return fmt.Errorf("%s is\n%v, want\n%v", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d services, want %d", len(got), len(want))
	}
	return nil
}

// stream is the name of the change stream under the default prefix.
const stream = "portolan_CHG"

// judgeStream waits until the stream has the whole log, and checks that each revision is in it once
// and in order.
func (i *installation) judgeStream(log []*registryv1.Change) {
	i.t.Helper()
	nc, err := nats.Connect(natsURL(i.brokers), nats.MaxReconnects(-1), nats.Timeout(time.Minute))
	if err != nil {
		i.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		i.t.Fatal(err)
	}
	var state jetstream.StreamState
	kittest.Eventually(i.t, "the stream has the whole log", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), lostAfter)
		defer cancel()
		found, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		if state = found.CachedInfo().State; state.LastSeq != uint64(len(log)) {
			return fmt.Errorf("it is at %d of %d", state.LastSeq, len(log))
		}
		return nil
	})
	if state.FirstSeq > firstOfLoad || state.Msgs != state.LastSeq-state.FirstSeq+1 {
		i.t.Fatalf("the stream has %d messages from %d to %d", state.Msgs, state.FirstSeq, state.LastSeq)
	}
	var messages jetstream.MessagesContext
	kittest.Eventually(i.t, "the stream is read", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), lostAfter)
		defer cancel()
		consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
		if err == nil {
			messages, err = consumer.Messages()
		}
		return err
	})
	defer messages.Stop()
	for _, want := range log[state.FirstSeq-1:] {
		m, err := messages.Next(jetstream.NextMaxWait(patience))
		if err != nil {
			i.t.Fatalf("stream: revision %d: %v", want.GetRevision(), err)
		}
		meta, err := m.Metadata()
		if err != nil {
			i.t.Fatal(err)
		}
		got := &registryv1.Change{}
		if err := got.UnmarshalVT(m.Data()); err != nil {
			i.t.Fatal(err)
		}
		if meta.Sequence.Stream != want.GetRevision() || !proto.Equal(got, want) {
			i.t.Fatalf("message %d of the stream is %v, the log has %v", meta.Sequence.Stream, got, want)
		}
	}
}

// lostAfter is the time after which a request to NATS is repeated, because a cluster between two
// leaders does not answer.
const lostAfter = 5 * time.Second

// firstOfLoad is at or before the first revision of a load. The default namespace is written before
// it.
const firstOfLoad = 2
