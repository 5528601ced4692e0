package check

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// origin is second 0 of all stories.
var origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func second(n float64) time.Time { return origin.Add(time.Duration(n * float64(time.Second))) }

// story is a history written by a test. Revision n of its log is committed at second n.
type story struct {
	history.History
	last uint64
}

func tell(parts ...func(*story)) *history.History {
	s := &story{}
	s.Log.Read = second(1000)
	for _, part := range parts {
		part(s)
	}
	return &s.History
}

// put commits an object at the next revision.
func put(o object.Object) func(*story) {
	return func(s *story) {
		s.last++
		o := object.Clone(o)
		object.MetaOf(o).ResourceVersion = s.last
		s.Log.Changes = append(s.Log.Changes, change(registryv1.ChangeType_CHANGE_TYPE_PUT, s.last, o))
	}
}

// del commits a deletion at the next revision.
func del(o object.Object) func(*story) {
	return func(s *story) {
		s.last++
		s.Log.Changes = append(s.Log.Changes, change(registryv1.ChangeType_CHANGE_TYPE_DELETE, s.last, o))
	}
}

func change(what registryv1.ChangeType, revision uint64, o object.Object) *registryv1.Change {
	return &registryv1.Change{Revision: revision, Type: what, Object: object.Wrap(o), Time: timestamppb.New(second(float64(revision)))}
}

// ends says when the log was read.
func ends(at float64) func(*story) { return func(s *story) { s.Log.Read = second(at) } }

// pod is a version of one object, as a write with a mark made it.
func pod(uid, mark string) *corev1.Pod {
	return &corev1.Pod{Metadata: &corev1.ObjectMeta{
		Namespace: "ns", Name: "p", Uid: uid, Annotations: map[string]string{history.MarkAnnotation: mark},
	}}
}

var podKey = object.KeyOf(pod("", ""))

// call adds a call with a verb and its times in seconds. fill sets its other fields.
func call(verb history.Verb, began, ended float64, fill ...func(*history.Call)) func(*story) {
	return func(s *story) {
		c := history.Call{Client: "c", Verb: verb, Key: podKey, Began: second(began)}
		if ended > 0 {
			c.Ended = second(ended)
		}
		for _, f := range fill {
			f(&c)
		}
		s.Calls = append(s.Calls, c)
	}
}

func mark(m string) func(*history.Call) { return func(c *history.Call) { c.Mark = m } }

// ok is an acknowledgement of a version.
func ok(uid string, revision uint64, mark string) func(*history.Call) {
	return func(c *history.Call) {
		c.Outcome, c.Found = history.OK, history.Version{UID: uid, Revision: revision, Mark: mark}
	}
}

func refused(code codes.Code) func(*history.Call) {
	return func(c *history.Call) { c.Outcome, c.Code, c.Error = history.Refused, code, code.String() }
}

func given(uid string, revision uint64) func(*history.Call) {
	return func(c *history.Call) { c.IfUID, c.IfRevision = uid, revision }
}

// verdict is a history and the finding that a checker must have; empty: none.
type verdict struct {
	name    string
	checker Checker
	h       *history.History
	want    string
}

func demand(t *testing.T, verdicts []verdict) {
	t.Helper()
	for _, v := range verdicts {
		t.Run(v.name, func(t *testing.T) {
			var text []string
			for _, f := range v.checker.Check(v.h) {
				text = append(text, f.String())
			}
			got := strings.Join(text, "\n")
			if v.want == "" && got != "" || !strings.Contains(got, v.want) {
				t.Errorf("found %q, want %q", got, v.want)
			}
		})
	}
}
