package server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/object"
)

// send answers with an object in a format.
func (req *request) send(code int, format wire.Format, o runtime.Object) error {
	body, err := format.Encode(o)
	if err != nil {
		return err
	}
	req.sendBytes(code, format.ContentType(false), body)
	return nil
}

func (req *request) sendBytes(code int, contentType string, body []byte) {
	req.w.Header().Set("Cache-Control", "no-cache, private")
	req.begin(code, contentType)
	for part := range slices.Chunk(body, partSize) {
		req.extendDeadline()
		if _, err := req.w.Write(part); err != nil {
			return // the client is gone
		}
	}
}

// begin sends the headers of an answer.
func (req *request) begin(code int, contentType string) {
	header := req.w.Header()
	header.Set("Content-Type", contentType)
	header.Set("X-Content-Type-Options", "nosniff")
	req.code = code
	req.limitUnread()
	req.w.WriteHeader(code)
}

// limitUnread sets a read deadline for a body that no handler has read. net/http reads a part of such a
// body before it answers, and would wait for it without end. The client has half of SendTimeout for the body,
// because the deadline of the answer, a whole SendTimeout, has begun already.
func (req *request) limitUnread() {
	if !req.bodyRead && req.r.ContentLength != 0 {
		_ = http.NewResponseController(req.w).SetReadDeadline(time.Now().Add(req.server.cfg.SendTimeout / 2)) // a pipe of a test has none
	}
}

// partSize is the size of the parts of an answer, in bytes. The client has SendTimeout to read each part.
const partSize = 256 << 10

// extendDeadline moves the deadline of writes to SendTimeout from now. The server calls it before each write,
// so that a slow client has this time for each part and not for the whole answer.
func (req *request) extendDeadline() {
	// A connection without deadlines, such as a pipe of a test, has none.
	_ = http.NewResponseController(req.w).SetWriteDeadline(time.Now().Add(req.server.cfg.SendTimeout))
}

// sendStatus answers with a Status, in the encoding that the client accepts.
func (req *request) sendStatus(status *metav1.Status) {
	if req.code != 0 {
		return // the answer has begun
	}
	format, err := wire.Negotiate(req.r, wire.Table, wire.Partial, wire.PartialList, wire.Discovery)
	if err != nil {
		format = wire.Default
	}
	format.As = wire.Untransformed
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		req.w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	body, err := format.Encode(status)
	if err != nil {
		format, body = wire.Default, []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`)
	}
	req.sendBytes(int(status.Code), format.ContentType(false), body)
}

// sendObject answers with an object of the resource.
func (req *request) sendObject(code int, format wire.Format, o object.Object) error {
	rows, err := req.rows()
	if err != nil {
		return err
	}
	kind := req.resource.Kind
	out, err := format.Object(kind, req.resource.Codec.Write(o), rows)
	if err != nil {
		return err
	}
	return req.send(code, format, out)
}

// rows returns how much of its object each row of a Table contains.
func (req *request) rows() (wire.Rows, error) {
	switch rows := wire.Rows(req.query.Get("includeObject")); rows {
	case "":
		return wire.RowsMetadata, nil
	case wire.RowsNone, wire.RowsMetadata, wire.RowsObject:
		return rows, nil
	default:
		return "", badRequest("Unable to convert to Table as requested: %v", field.Invalid(field.NewPath("includeObject"), rows, "must be 'Metadata', 'Object', 'None', or empty"))
	}
}

// miscellaneous is the code of warnings without a code of their own.
const miscellaneous = 299

// Limits of the length of one warning and of all, in bytes, because clients and proxies limit headers.
const (
	maxWarning  = 256
	maxWarnings = 4 << 10
)

// warn adds warnings to the answer, as headers.
func (req *request) warn(texts ...string) {
	total := 0
	for _, present := range req.w.Header().Values("Warning") {
		total += len(present)
	}
	for _, text := range texts {
		if len(text) > maxWarning {
			text = strings.ToValidUTF8(text[:maxWarning], "") + "…"
		}
		header, err := utilnet.NewWarningHeader(miscellaneous, "-", text)
		if total += len(header); err != nil || total > maxWarnings {
			return
		}
		req.w.Header().Add("Warning", header)
	}
}
