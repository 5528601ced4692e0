package audit

import (
	"strconv"
	"time"

	"portolan.dev/services/kit/jsonline"
)

// Entry is one call, and one line of the log. Empty fields are left out of the line.
type Entry struct {
	// Time is the time at which the call began.
	Time time.Time `json:"time"`
	// Daemon and Instance are the name of the daemon and of its host. Record sets them.
	Daemon   string `json:"daemon"`
	Instance string `json:"instance"`
	// Identity is the path of the caller's SPIFFE ID, such as nodeagent/n1. It is empty if the caller
	// has no identity in the daemon's trust domain, or if the daemon has no TLS.
	Identity string `json:"identity,omitempty"`
	// Via is the path of the SPIFFE ID of the daemon that made the call on behalf of Identity.
	Via string `json:"via,omitempty"`
	// Token is the name of the token by which Identity was proved, instead of by a certificate.
	Token string `json:"token,omitempty"`
	// Serial is the serial number of the caller's certificate, in hexadecimal digits.
	Serial string `json:"serial,omitempty"`
	// Peer is the address of the caller's end of the connection.
	Peer string `json:"peer,omitempty"`
	// Method is the full name of a gRPC method, or the method and path of an HTTP request.
	Method string `json:"method"`
	// Bulk is set if the entry is an operation of a bulk call. Seconds is then the duration of the bulk call.
	Bulk bool `json:"bulk,omitempty"`
	Object
	// Code is the outcome: a gRPC code such as OK or PERMISSION_DENIED.
	Code string `json:"code"`
	// Reason is the reason for which the call failed.
	Reason string `json:"reason,omitempty"`
	// Seconds is the duration of the call.
	Seconds float64 `json:"seconds"`
	// TraceID is the trace that the call is part of.
	TraceID string `json:"trace_id,omitempty"`
}

// Object is the object that a call reads or writes.
type Object struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Objects is the number of objects of a call that reads or writes several. The other fields then
	// describe the first object.
	Objects int `json:"objects,omitempty"`
	// DryRun is set if the caller asked to change nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Revision is the revision that the call made. For some methods that only read, it is the revision
	// that the call read. Otherwise it is 0.
	Revision uint64 `json:"revision,omitempty"`
}

// Missing is a line of the log that reports dropped lines.
type Missing struct {
	// Time is the time of the line.
	Time     time.Time `json:"time"`
	Daemon   string    `json:"daemon"`
	Instance string    `json:"instance"`
	// Dropped is the number of missing lines.
	Dropped int64 `json:"dropped"`
	// Cause is the reason for which they are missing: queue, disk or rate.
	Cause string `json:"cause"`
	// Since is the time at which the first of them was dropped.
	Since time.Time `json:"since"`
}

// ok is the code of calls that succeeded.
const ok = "OK"

// maxText is the largest length in bytes of a text in a line, before it is quoted. A longer text is cut
// and ends in three dots.
const maxText = 256

// append appends the entry as a line.
func (e *Entry) append(line []byte, origin origin) []byte {
	line = origin.append(line, e.Time)
	for _, text := range [...]struct{ key, value string }{
		{"identity", e.Identity}, {"via", e.Via}, {"token", e.Token}, {"serial", e.Serial}, {"peer", e.Peer}, {"method", e.Method},
	} {
		line = appendText(line, text.key, text.value)
	}
	if e.Bulk {
		line = append(line, `,"bulk":true`...)
	}
	for _, text := range [...]struct{ key, value string }{
		{"kind", e.Kind}, {"namespace", e.Namespace}, {"name", e.Name}, {"uid", e.UID},
	} {
		line = appendText(line, text.key, text.value)
	}
	if e.Objects != 0 {
		line = strconv.AppendInt(append(line, `,"objects":`...), int64(e.Objects), 10)
	}
	if e.DryRun {
		line = append(line, `,"dry_run":true`...)
	}
	if e.Revision != 0 {
		line = strconv.AppendUint(append(line, `,"revision":`...), e.Revision, 10)
	}
	line = appendText(line, "code", e.Code)
	line = appendText(line, "reason", e.Reason)
	line = strconv.AppendFloat(append(line, `,"seconds":`...), e.Seconds, 'f', 6, 64)
	line = appendText(line, "trace_id", e.TraceID)
	return append(line, "}\n"...)
}

func (m *Missing) append(line []byte, origin origin) []byte {
	line = origin.append(line, m.Time)
	line = strconv.AppendInt(append(line, `,"dropped":`...), m.Dropped, 10)
	line = appendText(line, "cause", m.Cause)
	line = appendTime(append(line, `,"since":`...), m.Since)
	return append(line, "}\n"...)
}

// origin has the fields that all lines of a log have in common.
type origin string

func newOrigin(daemon, instance string) origin {
	return origin(appendText(appendText(nil, "daemon", daemon), "instance", instance))
}

// append begins a line.
func (o origin) append(line []byte, at time.Time) []byte {
	return append(appendTime(append(line, `{"time":`...), at), o...)
}

func appendTime(line []byte, at time.Time) []byte {
	return at.UTC().AppendFormat(line, `"2006-01-02T15:04:05.000000Z"`)
}

// appendText appends a field unless its value is empty.
func appendText(line []byte, key, value string) []byte {
	if value == "" {
		return line
	}
	line = append(append(append(line, ',', '"'), key...), `":`...)
	return jsonline.AppendString(line, value, maxText)
}
