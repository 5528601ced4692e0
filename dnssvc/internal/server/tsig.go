package server

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// tsigFudge is the allowed difference between the clocks of both ends, in seconds, as RFC 8945
// recommends.
const tsigFudge = 300

// signature is the signature of a question (TSIG, RFC 8945) and the state for signing its answer.
type signature struct {
	question dns.TSIG
	key      Key
	fault    uint16 // why the signature is invalid: BADKEY, BADSIG or BADTIME; 0 if it is valid
	mac      string // of the question or the last signed message, in hexadecimal
	more     bool   // a message of the answer is signed already
}

var errMisplaced = errors.New("TSIG record is not the last one, or there are two")

// verify reads the signature of a question. It returns nil if there is none. It also returns nil
// without keys, because the answer is then not signed.
func (k Keys) verify(req *dns.Msg, packet []byte) (*signature, error) {
	if len(k) == 0 {
		return nil, nil
	}
	records := 0
	for _, rr := range slices.Concat(req.Answer, req.Ns, req.Extra) {
		if rr.Header().Rrtype == dns.TypeTSIG {
			records++
		}
	}
	record := req.IsTsig()
	switch {
	case records == 0:
		return nil, nil
	case records > 1 || record == nil:
		return nil, errMisplaced
	}
	s := &signature{question: *record}
	var known bool
	if s.key, known = k[KeyName(record.Hdr.Name)]; !known || s.key.Algorithm != KeyName(record.Algorithm) {
		s.fault = dns.RcodeBadKey
		return s, nil
	}
	// The library writes to the packet that it verifies.
	err := dns.TsigVerify(bytes.Clone(packet), s.key.secret, "", false)
	switch {
	case errors.Is(err, dns.ErrTime):
		s.fault = dns.RcodeBadTime
	case err != nil:
		s.fault = dns.RcodeBadSig
		return s, nil
	}
	s.mac = record.MAC
	return s, nil
}

// keyName returns the name of the key, for the log.
func (s *signature) keyName() string {
	if s == nil {
		return ""
	}
	return s.key.Name
}

// room returns the size that a signature adds to an answer, in bytes.
func (s *signature) room() int {
	switch {
	case s == nil:
		return 0
	// The answer has a TSIG record without a signature.
	case s.fault == dns.RcodeBadKey, s.fault == dns.RcodeBadSig:
		return dns.Len(s.record(0))
	}
	return dns.Len(s.record(0)) + len(s.question.MAC)/2
}

// record returns the TSIG record of an answer before it is signed.
func (s *signature) record(id uint16) *dns.TSIG {
	record := &dns.TSIG{
		Hdr:       dns.RR_Header{Name: s.question.Hdr.Name, Rrtype: dns.TypeTSIG, Class: dns.ClassANY},
		Algorithm: s.question.Algorithm, TimeSigned: uint64(time.Now().Unix()), Fudge: tsigFudge, OrigId: id, Error: s.fault,
	}
	// The record tells the client the server's time. It is signed with the client's own time (RFC
	// 8945, 5.2.3).
	if s.fault == dns.RcodeBadTime {
		record.OtherLen, record.OtherData = 6, fmt.Sprintf("%012x", record.TimeSigned)
		record.TimeSigned = s.question.TimeSigned
	}
	return record
}

// sign packs a message with its signature, or without one if s is nil. Each message after the first
// is signed together with its predecessor, so that no message can be left out.
func (s *signature) sign(m *dns.Msg) ([]byte, error) {
	if s == nil {
		return m.Pack()
	}
	m.Extra = append(m.Extra, s.record(m.Id))
	packed, mac, err := dns.TsigGenerate(m, s.key.secret, s.mac, s.more)
	s.mac, s.more = mac, true
	return packed, err
}

// signPacked signs a packed answer.
func (s *signature) signPacked(reply []byte) []byte {
	if s == nil || reply == nil {
		return reply
	}
	m := new(dns.Msg)
	if err := m.Unpack(reply); err != nil {
		return nil // impossible: the answer was packed here
	}
	m.Compress = true
	signed, err := s.sign(m)
	if err != nil {
		return nil // impossible: the key has verified the question
	}
	return signed
}
