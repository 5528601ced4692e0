package accesslog

import (
	"net/netip"
	"strconv"
	"time"
)

// appendELB appends a record as a line of the classic load balancers' format:
//
//	time balancer client:port backend:port request_processing_time backend_processing_time
//	response_processing_time elb_status_code backend_status_code received_bytes sent_bytes
//	"request" "user_agent" ssl_cipher ssl_protocol
//
// An unknown value is a dash, and an unknown duration is -1. At layer 4 the request is "- - - ", as in that format.
func appendELB(line []byte, balancer string, r *Record) []byte {
	line = append(appendTime(line, r.Time), ' ')
	line = append(append(line, balancer...), ' ')
	line = appendELBAddr(line, r.Client)
	line = appendELBAddr(line, r.Backend)
	for _, d := range [...]time.Duration{r.RequestTime, r.BackendTime, r.ResponseTime} {
		line = appendELBSeconds(line, d)
	}
	line = appendELBStatus(line, r.Status)
	line = appendELBStatus(line, r.BackendStatus)
	line = append(strconv.AppendInt(line, r.Received, 10), ' ')
	line = strconv.AppendInt(line, r.Sent, 10)
	line = appendELBRequest(append(line, ` "`...), &r.Request, r.Port)
	line = append(line, `" "`...)
	if r.UserAgent == "" {
		line = append(line, '-')
	} else {
		line = appendELBText(line, r.UserAgent, ' ')
	}
	line = append(line, `" `...)
	line = append(append(line, cipherName(r.CipherSuite)...), ' ')
	return append(append(line, protocolName(r.TLSVersion)...), '\n')
}

func appendELBAddr(line []byte, addr netip.AddrPort) []byte {
	if !addr.IsValid() {
		return append(line, "- "...)
	}
	return append(appendAddr(line, addr), ' ')
}

func appendELBSeconds(line []byte, d time.Duration) []byte {
	if d < 0 {
		return append(line, "-1 "...)
	}
	return append(appendSeconds(line, d), ' ')
}

func appendELBStatus(line []byte, status int) []byte {
	if status == 0 {
		return append(line, "- "...)
	}
	return append(strconv.AppendInt(line, int64(status), 10), ' ')
}

// appendELBRequest appends METHOD SCHEME://HOST:PORT/PATH PROTOCOL.
func appendELBRequest(line []byte, r *Request, port uint16) []byte {
	if r.Method == "" {
		return append(line, "- - - "...)
	}
	line = append(appendELBText(line, r.Method, '!'), ' ')
	line = append(append(line, r.Scheme...), "://"...)
	line = appendELBText(line, r.Host, '!')
	if !hasPort(r.Host) {
		line = strconv.AppendUint(append(line, ':'), uint64(port), 10)
	}
	line = append(appendELBText(line, r.URI, '!'), ' ')
	return appendELBText(line, r.Protocol, '!')
}

// appendELBText appends a text between quotes. Bytes below the lowest plain one, quotes, backslashes
// and everything that is not ASCII become \xHH, so that the quotes of the line are the only ones, and
// programs that look for the next quote find the right one.
func appendELBText(line []byte, text string, lowest byte) []byte {
	cut := len(text) > maxText
	if cut {
		text = text[:maxText]
	}
	const digits = "0123456789abcdef"
	for i := range len(text) {
		if c := text[i]; c >= lowest && c < 0x7f && c != '"' && c != '\\' {
			line = append(line, c)
		} else {
			line = append(line, '\\', 'x', digits[c>>4], digits[c&15])
		}
	}
	if cut {
		line = append(line, "..."...)
	}
	return line
}
