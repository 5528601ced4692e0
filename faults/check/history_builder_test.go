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

// origin is second 0 of all histories.
var origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func second(n float64) time.Time { return origin.Add(time.Duration(n * float64(time.Second))) }

// historyBuilder builds a history. Revision n of its log is committed at second n.
type historyBuilder struct {
	history.History
	lastRevision uint64
}

// build returns a history with the given parts. Its log was read at second 1000.
func build(parts ...func(*historyBuilder)) *history.History {
	s := &historyBuilder{}
	s.Log.ReadAt = second(1000)
	for _, part := range parts {
		part(s)
	}
	return &s.History
}

// put adds the write of an object to the log.
func put(o object.Object) func(*historyBuilder) {
	return func(s *historyBuilder) {
		s.lastRevision++
		o := object.Clone(o)
		object.MetaOf(o).ResourceVersion = s.lastRevision
		s.Log.Changes = append(s.Log.Changes, change(registryv1.ChangeType_CHANGE_TYPE_PUT, s.lastRevision, o))
	}
}

// del adds the deletion of an object to the log.
func del(o object.Object) func(*historyBuilder) {
	return func(s *historyBuilder) {
		s.lastRevision++
		s.Log.Changes = append(s.Log.Changes, change(registryv1.ChangeType_CHANGE_TYPE_DELETE, s.lastRevision, o))
	}
}

func change(what registryv1.ChangeType, revision uint64, o object.Object) *registryv1.Change {
	return &registryv1.Change{Revision: revision, Type: what, Object: object.Wrap(o), Time: timestamppb.New(second(float64(revision)))}
}

// logReadAt sets the time at which the log was read.
func logReadAt(at float64) func(*historyBuilder) {
	return func(s *historyBuilder) { s.Log.ReadAt = second(at) }
}

// pod returns a pod. The versions differ in the UID and the WriteID.
func pod(uid, mark string) *corev1.Pod {
	return &corev1.Pod{Metadata: &corev1.ObjectMeta{
		Namespace: "ns", Name: "p", Uid: uid, Annotations: map[string]string{history.WriteIDAnnotation: mark},
	}}
}

var podKey = object.KeyOf(pod("", ""))

// call adds a call with a verb and its times in seconds; ended 0 means in progress. The functions
// fill set the other fields.
func call(verb history.Verb, began, ended float64, fill ...func(*history.Call)) func(*historyBuilder) {
	return func(s *historyBuilder) {
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

func writeID(id string) func(*history.Call) { return func(c *history.Call) { c.WriteID = id } }

// ok sets the outcome OK and the resulting version.
func ok(uid string, revision uint64, mark string) func(*history.Call) {
	return func(c *history.Call) {
		c.Outcome, c.Result = history.OK, history.Version{UID: uid, Revision: revision, WriteID: mark}
	}
}

// refused sets the outcome Refused.
func refused(code codes.Code) func(*history.Call) {
	return func(c *history.Call) { c.Outcome, c.Code, c.Error = history.Refused, code, code.String() }
}

// condition sets the conditions of a call.
func condition(uid string, revision uint64) func(*history.Call) {
	return func(c *history.Call) { c.IfUID, c.IfRevision = uid, revision }
}

// checkerTest is a history, and a part of the finding that a checker must have. An empty want means
// no finding.
type checkerTest struct {
	name    string
	checker Checker
	h       *history.History
	want    string
}

func runTests(t *testing.T, tests []checkerTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var text []string
			for _, f := range test.checker.Check(test.h) {
				text = append(text, f.String())
			}
			got := strings.Join(text, "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}
