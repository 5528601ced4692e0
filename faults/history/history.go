package history

import (
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/grpc/codes"

	"portolan.dev/services/object"
)

// History is the record of a run, or of a run in progress.
type History struct {
	// Calls are the calls of clients, in the order in which they began.
	Calls []Call
	// Log is the registry's log of changes. It has every change that was acknowledged before
	// Log.ReadAt, and possibly more.
	Log Log
	// Watches are the changes that watchers received.
	Watches []Watch
	// DNSAnswers are the answers of name servers.
	DNSAnswers []DNSAnswer
	// Connections are the connections that clients kept open through virtual IPs.
	Connections []Connection
	// Probes are short connections to virtual IPs.
	Probes []Probe
	// AllocationLists are the lists of values that the allocator returned.
	AllocationLists []AllocationList
	// LogLines are the log lines of daemons.
	LogLines []LogLine
	// Faults are the faults that the nemesis caused.
	Faults []Fault
	// UnrecordedUnknownEnd is the time at which the last write ended whose outcome is unknown and that is not among
	// Calls, or the zero time.
	UnrecordedUnknownEnd time.Time
}

// Verb is the kind of a call.
type Verb string

// The verbs.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
	Get    Verb = "get"
	// UpdateStatus replaces the status of an object. If the object has that status already, nothing
	// changes. The WriteID annotation stays the same.
	UpdateStatus Verb = "update-status"
)

// Outcome is the outcome of a call, as far as its client knows it.
type Outcome int

// The outcomes. A call that has not ended has the outcome Unknown.
const (
	// Unknown means that a write may have been committed, may be committed later, or never.
	Unknown Outcome = iota
	// OK means that the call was acknowledged.
	OK
	// Refused means that a write was not committed and never will be.
	Refused
)

// Call is one call about one object, from a client to a registry.
type Call struct {
	Client   string
	Registry string // address
	Verb     Verb
	Key      object.Key
	WriteID  string // of a create or update: the value of WriteIDAnnotation, unique in the run
	// ShortDeadline reports whether the call intentionally had a far too short deadline. Such calls
	// are not counted in Availability.
	ShortDeadline bool
	// IfUID and IfRevision are the conditions of an update or delete. Empty means no condition.
	IfUID      string
	IfRevision uint64
	Began      time.Time
	Ended      time.Time // zero if the call is in progress
	Outcome    Outcome
	Code       codes.Code
	Error      string
	// Result is the version in the response: the stored version for a create, update or get, and
	// the last version for a delete.
	Result Version
}

// IsWrite reports whether the call is not a Get.
func (c *Call) IsWrite() bool { return c.Verb != Get }

// WriteIDAnnotation is the annotation with the WriteID of the create or update that made a version
// of an object.
const WriteIDAnnotation = "faults.portolan.dev/write"

// Version identifies a version of an object.
type Version struct {
	UID      string
	Revision uint64
	WriteID  string
}

// VersionOf returns the version of an object. For nil it returns the zero Version.
func VersionOf(o object.Object) Version {
	if o == nil {
		return Version{}
	}
	meta := o.GetMetadata()
	return Version{meta.GetUid(), meta.GetResourceVersion(), meta.GetAnnotations()[WriteIDAnnotation]}
}

// Watch is the record of one watcher, across all its reconnects.
type Watch struct {
	Watcher string
	// Kinds are the watched kinds. Empty means all kinds.
	Kinds   []string
	Batches []Batch
	// Stopped reports whether the watcher has stopped. A watcher that has stopped need not reach
	// the log's head.
	Stopped bool
}

// Batch is a batch of changes, or a snapshot, that a watcher received.
type Batch struct {
	At time.Time
	// Snapshot reports whether Events are all objects at Revision. Otherwise Events are changes.
	Snapshot bool
	Events   []WatchEvent
	// Revision is the revision up to which the watcher has received all changes.
	Revision uint64
}

// WatchEvent is a change that a watcher received, or an object of a snapshot.
type WatchEvent struct {
	Revision uint64
	Deleted  bool
	Object   object.Object // for a deletion: the last state
}

// DNSAnswer is the answer of a name server to one query.
type DNSAnswer struct {
	Server string
	Name   string // fully qualified
	Type   string // such as "A"
	Began  time.Time
	Ended  time.Time
	// Rcode is the response code, such as "NOERROR". It is empty if no answer arrived.
	Rcode   string
	Records []string // values of the answer's records of Type, sorted
	Error   string
}

// Connection is a connection that a client kept open and used.
type Connection struct {
	Client  string
	Target  netip.AddrPort // address and port of the service
	Backend netip.AddrPort // invalid if no backend answered
	Began   time.Time      // of the dial
	// Lost is the time at which the connection broke. It is zero if it did not, or if the client
	// closed it.
	Lost time.Time
	// LastAnswer is the time of the backend's last answer.
	LastAnswer time.Time
	Error      string
}

// Probe is a short connection, opened to get one answer.
type Probe struct {
	Client  string
	Target  netip.AddrPort
	Backend netip.AddrPort // invalid if no backend answered
	Began   time.Time
	Ended   time.Time
	Error   string // empty if a backend answered
}

// AllocationList is the answer of the allocator to one listing of its allocated values.
type AllocationList struct {
	Began, Ended time.Time
	Allocations  []Allocation
	// AtHand are the values in reserves of registries. A service may have one that the registry has not
	// settled yet.
	AtHand []string
}

// Allocation is a value that the allocator has allocated to an object and that is not resting.
type Allocation struct{ Value, UID string }

// LogLine is one line of a daemon's log.
type LogLine struct {
	Process string
	At      time.Time
	Text    string
}

// Fault is a fault that the nemesis caused.
type Fault struct {
	Description string
	Began       time.Time
	Ended       time.Time // zero if it has not ended
}

// FaultDuration returns how long at least one fault was in effect between two times. A fault stays
// in effect for the duration effect after its end.
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

// LastUnknownEnd returns the time at which the last call with an unknown outcome ended, or the zero
// time if there is no such call.
func (h *History) LastUnknownEnd() time.Time {
	last := h.UnrecordedUnknownEnd
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

// describeRequest returns the call's request on one line.
func (c Call) describeRequest() string {
	text := fmt.Sprintf("%s %s %s", c.Verb, c.Key, c.WriteID)
	if c.IfUID != "" || c.IfRevision > 0 {
		text += fmt.Sprintf(" (if uid %q, version %d)", c.IfUID, c.IfRevision)
	}
	return text
}
