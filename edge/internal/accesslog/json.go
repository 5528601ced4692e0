package accesslog

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"portolan.dev/services/kit/jsonline"
)

// jsonFrame has the parts of a log's lines that are the same for all records.
type jsonFrame struct {
	names []byte // the balancer, namespace and service
	tags  []byte
}

func newJSONFrame(t *Target) jsonFrame {
	var f jsonFrame
	f.names = appendJSONText(f.names, "balancer", t.balancer())
	f.names = appendJSONText(f.names, "namespace", t.Namespace)
	f.names = appendJSONText(f.names, "service", t.Service)
	if len(t.Tags) == 0 {
		return f
	}
	f.tags = append(f.tags, `,"tags":{`...)
	for i, key := range slices.Sorted(maps.Keys(t.Tags)) {
		if i > 0 {
			f.tags = append(f.tags, ',')
		}
		f.tags = append(jsonline.AppendString(f.tags, key, maxText), ':')
		f.tags = jsonline.AppendString(f.tags, t.Tags[key], maxText)
	}
	f.tags = append(f.tags, '}')
	return f
}

// append appends a record as a line. Fields that are unknown are left out.
func (f *jsonFrame) append(line []byte, r *Record) []byte {
	line = append(appendTime(append(line, `{"time":"`...), r.Time), '"')
	line = append(line, f.names...)
	line = strconv.AppendUint(append(line, `,"port":`...), uint64(r.Port), 10)
	if r.Client.IsValid() {
		line = append(appendAddr(append(line, `,"client":"`...), r.Client), '"')
	}
	if r.Backend.IsValid() {
		line = append(appendAddr(append(line, `,"backend":"`...), r.Backend), '"')
	}
	line = appendJSONSeconds(line, `,"request_seconds":`, r.RequestTime)
	line = appendJSONSeconds(line, `,"backend_seconds":`, r.BackendTime)
	line = appendJSONSeconds(line, `,"response_seconds":`, r.ResponseTime)
	line = appendJSONStatus(line, `,"status":`, r.Status)
	line = appendJSONStatus(line, `,"backend_status":`, r.BackendStatus)
	line = appendJSONText(line, "result", r.Ending.String())
	line = strconv.AppendInt(append(line, `,"received_bytes":`...), r.Received, 10)
	line = strconv.AppendInt(append(line, `,"sent_bytes":`...), r.Sent, 10)
	line = appendJSONRequest(line, &r.Request)
	line = appendJSONText(line, "user_agent", r.UserAgent)
	if r.TLSVersion != 0 {
		line = appendJSONText(line, "tls_cipher", cipherName(r.CipherSuite))
		line = appendJSONText(line, "tls_protocol", protocolName(r.TLSVersion))
	}
	return append(append(line, f.tags...), "}\n"...)
}

func appendJSONSeconds(line []byte, key string, d time.Duration) []byte {
	if d < 0 {
		return line
	}
	return appendSeconds(append(line, key...), d)
}

func appendJSONStatus(line []byte, key string, status int) []byte {
	if status == 0 {
		return line
	}
	return strconv.AppendInt(append(line, key...), int64(status), 10)
}

func appendJSONRequest(line []byte, r *Request) []byte {
	line = appendJSONText(line, "method", r.Method)
	line = appendJSONText(line, "scheme", r.Scheme)
	line = appendJSONText(line, "host", r.Host)
	line = appendJSONText(line, "uri", r.URI)
	return appendJSONText(line, "protocol", r.Protocol)
}

// appendJSONText appends a field unless its value is empty.
func appendJSONText(line []byte, key, value string) []byte {
	if value == "" {
		return line
	}
	line = append(append(append(line, ',', '"'), key...), `":`...)
	return jsonline.AppendString(line, value, maxText)
}
