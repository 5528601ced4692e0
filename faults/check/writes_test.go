package check

import (
	"testing"

	"google.golang.org/grpc/codes"

	"portolan.dev/faults/history"
)

func TestWrites(t *testing.T) {
	created := call(history.Create, 0.5, 1.5, writeID("a"), ok("u", 1, "a"))
	runTests(t, []checkerTest{
		{"acknowledged and in the log", Writes{}, build(put(pod("u", "a")), created), ""},
		{"acknowledged after the log was read", Writes{}, build(created, logReadAt(1)), ""},
		{"acknowledged and lost", Writes{}, build(created), "create a was acknowledged at revision 1 and is not in the log"},
		{"acknowledged at another revision", Writes{}, build(put(pod("x", "b")), call(history.Create, 0, 1, writeID("b"), ok("x", 1, "b")),
			put(pod("u", "a")), created), "acknowledged at revision 1, the log has it at 2"},
		{"refused and not in the log", Writes{}, build(call(history.Create, 0.5, 1.5, writeID("a"), refused(codes.AlreadyExists))), ""},
		{"refused and in the log", Writes{}, build(put(pod("u", "a")), call(history.Create, 0.5, 1.5, writeID("a"), refused(codes.AlreadyExists))),
			"create a was refused (AlreadyExists) and took effect at revision 1"},
		{"unknown and in the log", Writes{}, build(put(pod("u", "a")), call(history.Create, 0.5, 1.5, writeID("a"))), ""},
		{"unknown and not in the log", Writes{}, build(call(history.Create, 0.5, 1.5, writeID("a"))), ""},
		{"in progress and in the log", Writes{}, build(put(pod("u", "a")), call(history.Create, 0.5, 0, writeID("a"))), ""},
		{"unknown and in the log twice", Writes{}, build(put(pod("u", "a")), del(pod("u", "a")), put(pod("v", "a")),
			call(history.Create, 0.5, 1.5, writeID("a")), call(history.Delete, 1.6, 2.5, ok("u", 1, "a"))),
			"took effect at revisions [1 3], want once"},
		{"a version that another client changed", Writes{}, build(put(pod("u", "a")), put(pod("u", "a")), created), ""},
		{"a write ID of no client", Writes{}, build(put(pod("u", "a"))), `has the write ID "a", which no client wrote`},
		{"deleted", Writes{}, build(put(pod("u", "a")), created, del(pod("u", "a")), call(history.Delete, 1.6, 2.5, ok("u", 1, "a"))), ""},
		{"deleted and not in the log", Writes{}, build(put(pod("u", "a")), created, call(history.Delete, 1.6, 2.5, ok("u", 1, "a"))),
			"delete  was acknowledged at revision 1 and is not in the log"},
		{"deleted without an answer", Writes{}, build(put(pod("u", "a")), created, del(pod("u", "a")), call(history.Delete, 1.6, 2.5)), ""},
		{"deleted without a request", Writes{}, build(put(pod("u", "a")), created, del(pod("u", "a"))), "revision 2 deletes version 1, which no client requested"},
		{"deleted though another object was requested", Writes{}, build(put(pod("u", "a")), created, del(pod("u", "a")),
			call(history.Delete, 1.6, 2.5, condition("x", 0))), "which no client requested"},
		{"deleted though it was refused", Writes{}, build(put(pod("u", "a")), created, del(pod("u", "a")),
			call(history.Delete, 1.6, 2.5, refused(codes.Aborted))), "which no client requested"},
		{"two deleted by one call", Writes{}, build(put(pod("u", "a")), created, del(pod("u", "a")),
			put(pod("v", "b")), call(history.Create, 2.5, 3.5, writeID("b"), ok("v", 3, "b")), del(pod("v", "b")),
			call(history.Delete, 1.6, 9)), "revision 4 deletes version 3, which no client requested"},
		{"a status", Writes{}, build(put(pod("u", "a")), put(pod("u", "a")), created,
			call(history.UpdateStatus, 1.6, 2.5, ok("u", 2, "a"))), ""},
		{"an unchanged status", Writes{}, build(put(pod("u", "a")), created, call(history.UpdateStatus, 1.6, 2.5, ok("u", 1, "a"))), ""},
		{"a status without an answer", Writes{}, build(put(pod("u", "a")), created, call(history.UpdateStatus, 1.6, 2.5)), ""},
		{"a status, acknowledged and lost", Writes{}, build(put(pod("u", "a")), created, call(history.UpdateStatus, 1.6, 2.5, ok("u", 2, "a"))),
			"update-status was acknowledged with version 2, which is not in the log"},
		{"deleted twice", Writes{}, build(put(pod("u", "a")), created, del(pod("u", "a")), call(history.Delete, 1.6, 2.5, ok("u", 1, "a")),
			call(history.Delete, 1.6, 2.5, ok("u", 1, "a"))), "the deletion of u was acknowledged twice"},
	})
}

func TestOrder(t *testing.T) {
	gap := build(put(pod("u", "a")), func(s *historyBuilder) { s.lastRevision++ }, put(pod("u", "b")))
	runTests(t, []checkerTest{
		{"in order", Order{}, build(put(pod("u", "a")), put(pod("u", "b")), call(history.Create, 0, 1, writeID("a"), ok("u", 1, "a")),
			call(history.Update, 1.5, 2, writeID("b"), ok("u", 2, "b"))), ""},
		{"at the same time", Order{}, build(call(history.Create, 0, 2, writeID("a"), ok("u", 2, "a")), call(history.Update, 1, 2, writeID("b"), ok("v", 1, "b"))), ""},
		{"an unchanged status", Order{}, build(put(pod("u", "a")), put(pod("v", "b")), call(history.Create, 0, 1, writeID("a"), ok("u", 1, "a")),
			call(history.Create, 1.5, 2.5, writeID("b"), ok("v", 2, "b")), call(history.UpdateStatus, 3, 4, ok("u", 1, "a"))), ""},
		{"a gap", Order{}, gap, "revision 3 follows 1 in the log"},
		{"later and smaller", Order{}, build(call(history.Create, 0, 1, writeID("a"), ok("u", 2, "a")),
			call(history.Update, 1.5, 2, writeID("b"), ok("v", 1, "b"))), "has revision 1, though it began after c had received revision 2"},
		{"later and smaller than a read", Order{}, build(call(history.Get, 0, 1, ok("u", 7, "a")),
			call(history.Update, 1.5, 2, writeID("b"), ok("v", 6, "b"))), "has revision 6"},
		{"later and smaller than a deletion", Order{}, build(put(pod("u", "a")), del(pod("u", "a")), call(history.Delete, 2, 3, ok("u", 1, "a")),
			call(history.Create, 4, 5, writeID("b"), ok("v", 2, "b"))), "has revision 2"},
	})
}

// TestLinearizable checks histories with and without a log.
func TestLinearizable(t *testing.T) {
	create := call(history.Create, 0.5, 1.5, writeID("a"), ok("u", 1, "a"))
	unknown := call(history.Create, 0.5, 1.5, writeID("a"))
	noLog := func(s *historyBuilder) { s.Log = history.Log{} }
	runTests(t, []checkerTest{
		{"written and read", Linearizable{}, build(noLog, create, call(history.Get, 2, 3, ok("u", 1, "a"))), ""},
		{"written and not read", Linearizable{}, build(noLog, create, call(history.Get, 2, 3, refused(codes.NotFound))), "get  by c: refused, NotFound"},
		{"read during the write", Linearizable{}, build(noLog, create, call(history.Get, 1, 3, refused(codes.NotFound))), ""},
		{"an old version read", Linearizable{}, build(noLog, create, call(history.Update, 2, 3, writeID("b"), ok("u", 2, "b")),
			call(history.Get, 4, 5, ok("u", 1, "a"))), "no order"},
		{"a lost update", Linearizable{}, build(noLog, create, call(history.Update, 2, 4, writeID("b"), condition("u", 1), ok("u", 2, "b")),
			call(history.Update, 2, 4, writeID("c"), condition("u", 1), ok("u", 3, "c"))), "no order"},
		{"a conflict", Linearizable{}, build(noLog, create, call(history.Update, 2, 4, writeID("b"), condition("u", 1), ok("u", 2, "b")),
			call(history.Update, 2, 4, writeID("c"), condition("u", 1), refused(codes.Aborted))), ""},
		{"refused without a reason", Linearizable{}, build(noLog, create, call(history.Update, 2, 4, writeID("c"), condition("u", 1), refused(codes.Aborted))),
			"no order"},
		{"a conflict without a condition", Linearizable{}, build(noLog, create, call(history.Update, 2, 4, writeID("c"), refused(codes.Aborted))), ""},
		{"created twice", Linearizable{}, build(noLog, create, call(history.Create, 2, 3, writeID("b"), ok("v", 2, "b"))), "no order"},
		{"refused because it exists", Linearizable{}, build(noLog, create, call(history.Create, 2, 3, writeID("b"), refused(codes.AlreadyExists))), ""},
		{"refused because it exists, but it does not", Linearizable{}, build(noLog, call(history.Create, 2, 3, writeID("b"), refused(codes.AlreadyExists))), "no order"},
		{"deleted and read", Linearizable{}, build(noLog, create, call(history.Delete, 2, 3, ok("u", 1, "a")),
			call(history.Get, 4, 5, ok("u", 1, "a"))), "no order"},
		{"deleted with another UID", Linearizable{}, build(noLog, create, call(history.Delete, 2, 3, condition("u", 7), ok("u", 1, "a"))), "no order"},
		{"unknown, and never committed", Linearizable{}, build(noLog, unknown, call(history.Get, 2, 3, refused(codes.NotFound))), ""},
		{"unknown, and committed late", Linearizable{}, build(noLog, unknown, call(history.Get, 2, 3, refused(codes.NotFound)),
			call(history.Get, 4, 5, ok("u", 1, "a"))), ""},
		{"unknown, committed and undone", Linearizable{}, build(noLog, unknown, call(history.Get, 4, 5, ok("u", 1, "a")),
			call(history.Get, 6, 7, refused(codes.NotFound))), "no order"},
		{"an unknown deletion", Linearizable{}, build(noLog, create, call(history.Delete, 2, 3), call(history.Get, 4, 5, ok("u", 1, "a")),
			call(history.Get, 6, 7, refused(codes.NotFound))), ""},
		{"in progress, and read", Linearizable{}, build(noLog, call(history.Create, 0.5, 0, writeID("a")), call(history.Get, 4, 5, ok("u", 1, "a"))), ""},
		{"a status", Linearizable{}, build(noLog, create, call(history.UpdateStatus, 2, 3, ok("u", 2, "a")), call(history.Get, 4, 5, ok("u", 2, "a"))), ""},
		{"an unchanged status", Linearizable{}, build(noLog, create, call(history.UpdateStatus, 2, 3, ok("u", 1, "a"))), ""},
		{"a status that undoes a write", Linearizable{}, build(noLog, create, call(history.Update, 2, 3, writeID("b"), ok("u", 2, "b")),
			call(history.UpdateStatus, 4, 5, ok("u", 3, "a"))), "no order"},
		{"an old status", Linearizable{}, build(put(pod("u", "a")), put(pod("u", "b")), create, call(history.Update, 1.6, 2.5, writeID("b"), ok("u", 2, "b")),
			call(history.UpdateStatus, 3, 4, ok("u", 1, "a"))), "no order"},
		{"an unknown status", Linearizable{}, build(noLog, create, call(history.UpdateStatus, 2, 3), call(history.Get, 4, 5, ok("u", 2, "a"))), ""},
		{"a status in the log", Linearizable{}, build(create, put(pod("u", "a")), put(pod("u", "a")),
			call(history.UpdateStatus, 1.6, 2.5, ok("u", 2, "a")), call(history.Get, 4, 5, ok("u", 2, "a"))), ""},
		{"an unknown status in the log", Linearizable{}, build(create, put(pod("u", "a")), put(pod("u", "a")),
			call(history.UpdateStatus, 1.6, 2.5), call(history.Get, 4, 5, ok("u", 2, "a"))), ""},
		{"read before it began", Linearizable{}, build(noLog, call(history.Get, 0, 0.1, ok("u", 1, "a")), unknown), "no order"},

		{"unknown, and in the log", Linearizable{}, build(unknown, put(pod("u", "a")), call(history.Get, 2, 3, ok("u", 1, "a"))), ""},
		{"unknown, in the log, and read too late", Linearizable{}, build(unknown, put(pod("u", "a")), call(history.Get, 2, 3, ok("u", 1, "a")),
			call(history.Get, 4, 5, refused(codes.NotFound))), "no order"},
		{"an unknown deletion in the log", Linearizable{}, build(create, put(pod("u", "a")), call(history.Delete, 2, 3), del(pod("u", "a")),
			call(history.Get, 4, 5, refused(codes.NotFound))), ""},
		{"changed by another client", Linearizable{}, build(create, put(pod("u", "a")), put(pod("u", "a")),
			call(history.Update, 4, 5, writeID("b"), condition("u", 1), refused(codes.Aborted)), call(history.Get, 6, 7, ok("u", 2, "a"))), ""},
		{"in the first snapshot", Linearizable{}, build(func(s *historyBuilder) {
			s.Log.Base, s.lastRevision = 5, 5
			o := pod("u", "a")
			o.Metadata.ResourceVersion = 5
			s.Log.Objects = append(s.Log.Objects, o)
		}, call(history.Get, 2, 3, ok("u", 5, "a"))), ""},
	})
}
