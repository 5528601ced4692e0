package history

import (
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/grpc/codes"

	"portolan.dev/services/object"
)

// History is the record of a run, or of its first part.
type History struct {
	// Calls are the calls of clients, in the order in which they began.
	Calls []Call
	// Log is the registry's log of changes. It has every change that was acknowledged before
	// Log.Read, and possibly more.
	Log Log
	// Readings are the changes that watchers read from the log.
	Watches []Watch
	// Answers are the answers of name servers.
	DNSAnswers []DNSAnswer
	// Connections are those that clients kept open through virtual IPs.
	Connections []Connection
	// Attempts are short connections to virtual IPs.
	Probes []Probe
	// Holdings are the listings of the allocator's values.
	AllocationLists []AllocationList
	// Lines are the log lines of daemons.
	LogLines []LogLine
	// Disturbances are the disturbances that the nemesis caused.
	Faults []Fault
}

// Verb is the kind of a call.
type Verb string

// The verbs.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
	Get    Verb = "get"
	// UpdateStatus changes the status of an object, and nothing if it has that status already. The
	// version keeps its mark.
	UpdateStatus Verb = "update-status"
)

// Outcome is the outcome of a call as its client knows it.
type Outcome int

// The outcomes. A call that has not ended has the outcome Unknown.
const (
	// Unknown means that a write may have happened, may happen later, or never.
	Unknown Outcome = iota
	// OK means that the call was acknowledged.
	OK
	// Refused means that a write did not happen and never will.
	Refused
)

// Call is one call of a client to a registry about one object.
type Call struct {
	Client   string
	Registry string // address
	Verb     Verb
	Key      object.Key
	WriteID  string // of a create or update: the value of MarkAnnotation, different in each
	// Impatient calls get a far too short deadline on purpose. They say nothing of how available a
	// registry is.
	ShortDeadline bool
	// IfUID and IfRevision are the conditions of an update or delete; empty: none.
	IfUID      string
	IfRevision uint64
	Began      time.Time
	Ended      time.Time // zero: it is under way
	Outcome    Outcome
	Code       codes.Code
	Error      string
	// Found is the version in the answer: of a create or update as stored, of a delete as it last
	// was.
	Result Version
}

// Writes reports whether the call is meant to change its object.
func (c *Call) IsWrite() bool { return c.Verb != Get }

// MarkAnnotation tells by which write a version of an object came about.
const WriteIDAnnotation = "faults.portolan.dev/write"

// Version identifies a version of an object.
type Version struct {
	UID      string
	Revision uint64
	WriteID  string
}

// VersionOf returns the version of an object; the zero Version for nil.
func VersionOf(o object.Object) Version {
	if o == nil {
		return Version{}
	}
	meta := o.GetMetadata()
	return Version{meta.GetUid(), meta.GetResourceVersion(), meta.GetAnnotations()[WriteIDAnnotation]}
}

// Reading holds the changes that one watcher saw of the log, through all its reconnects.
type Watch struct {
	Watcher string
	// Kinds are those that it watches; empty: all.
	Kinds   []string
	Batches []Batch
	// Over is set once it reads no further.
	Stopped bool
}

// Batch holds the changes, or the snapshot, that a watcher received at once.
type Batch struct {
	At time.Time
	// Snapshot reports whether Seen are all objects as they are at Revision. Otherwise they are
	// changes.
	Snapshot bool
	Events   []WatchEvent
	// Revision is up to where the watcher is complete.
	Revision uint64
}

// Seen is one change as a watcher saw it, or one object of a snapshot.
type WatchEvent struct {
	Revision uint64
	Deleted  bool
	Object   object.Object // of a deletion as it last was
}

// Answer is the answer of a name server to one question.
type DNSAnswer struct {
	Server string
	Name   string // fully qualified
	Type   string // such as "A"
	Began  time.Time
	Ended  time.Time
	// Rcode is the response code, such as "NOERROR"; empty if no answer came.
	Rcode   string
	Records []string // values of the answer's records of Type, sorted
	Error   string
}

// Connection is one that a client kept open and used.
type Connection struct {
	Client  string
	Target  netip.AddrPort // virtual
	Backend netip.AddrPort // that answered; invalid: none did
	Began   time.Time      // of the dial
	// Lost is when it ended against the client's will; zero: it did not.
	Lost time.Time
	// Heard is when the backend last answered.
	LastAnswer time.Time
	Error      string
}

// Attempt is a connection that was opened to get one answer.
type Probe struct {
	Client  string
	Target  netip.AddrPort
	Backend netip.AddrPort // that answered
	Began   time.Time
	Ended   time.Time
	Error   string // empty: a backend answered
}

// Holdings is one listing of the values that the allocator holds.
type AllocationList struct {
	Began, Ended time.Time
	Allocations  []Allocation
}

// Held is a value that the allocator has given to an object and that does not rest.
type Allocation struct{ Value, UID string }

// Line is one line of a daemon's log.
type LogLine struct {
	Process string
	At      time.Time
	Text    string
}

// Disturbance is one deed of the nemesis.
type Fault struct {
	Description string
	Began       time.Time
	Ended       time.Time // zero: it lasts
}

// Disturbed returns how much of the time between two moments a disturbance lasted. Afterwards is
// how long the effects of each last.
func (h *History) FaultDuration(from, to time.Time, effect time.Duration) time.Duration {
	var all spans
	for _, f := range h.Faults {
		end := to
		if !f.Ended.IsZero() {
			end = f.Ended.Add(effect)
		}
		all = append(all, span{later(f.Began, from), earlier(end, to)})
	}
	return all.total()
}

// LastUnknown returns the time at which the last call with an unknown outcome ended; zero: there is
// none.
func (h *History) LastUnknownEnd() time.Time {
	var last time.Time
	for _, c := range h.Calls {
		if c.Outcome == Unknown {
			last = later(last, c.Ended)
		}
	}
	return last
}

// String returns the call on one line.
func (c Call) String() string {
	text := fmt.Sprintf("%s to %s: %s by %s", c.Began.Format("04:05.000"), c.Ended.Format("04:05.000"), c.describeRequest(), c.Client)
	switch c.Outcome {
	case OK:
		return text + fmt.Sprintf(": version %d of %s", c.Result.Revision, c.Result.UID)
	case Refused:
		return text + fmt.Sprintf(": refused, %s", c.Error)
	}
	return text + ": unknown, " + c.Error
}

// request describes the request of the call.
func (c Call) describeRequest() string {
	text := fmt.Sprintf("%s %s %s", c.Verb, c.Key, c.WriteID)
	if c.IfUID != "" || c.IfRevision > 0 {
		text += fmt.Sprintf(" (if uid %q, version %d)", c.IfUID, c.IfRevision)
	}
	return text
}
