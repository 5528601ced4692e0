package server

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// tsigFudge is how far the clocks of both ends may differ, in seconds: what RFC 8945 recommends.
const tsigFudge = 300

// signature is the signature of a question (TSIG, RFC 8945), and what the answer to it is signed
// with.
type signature struct {
	question dns.TSIG
	key      Key
	fault    uint16 // why the signature does not count: BADKEY, BADSIG or BADTIME; 0: it does
	mac      string // of the question or the message signed last, in hexadecimal
	more     bool   // a message of the answer is signed already
}

var errMisplaced = errors.New("TSIG record is not the last one, or there are two")

// verify reads the signature of a question. It returns nil if there is none or if there are no
// keys, so that no one can expect a signed answer.
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

// room is what a signature adds to an answer, in bytes.
func (s *signature) room() int {
	switch {
	case s == nil:
		return 0
	case s.fault == dns.RcodeBadKey, s.fault == dns.RcodeBadSig: // the answer has a record without a signature
		return dns.Len(s.record(0))
	}
	return dns.Len(s.record(0)) + len(s.question.MAC)/2
}

// record is the TSIG record of an answer before it is signed.
func (s *signature) record(id uint16) *dns.TSIG {
	record := &dns.TSIG{
		Hdr:       dns.RR_Header{Name: s.question.Hdr.Name, Rrtype: dns.TypeTSIG, Class: dns.ClassANY},
		Algorithm: s.question.Algorithm, TimeSigned: uint64(time.Now().Unix()), Fudge: tsigFudge, OrigId: id, Error: s.fault,
	}
	if s.fault == dns.RcodeBadTime { // the client learns our time, signed with its own (RFC 8945, 5.2.3)
		record.OtherLen, record.OtherData = 6, fmt.Sprintf("%012x", record.TimeSigned)
		record.TimeSigned = s.question.TimeSigned
	}
	return record
}

// sign packs a message with its signature, or without one if s is nil. Messages after the first one
// are signed together with the one before, so that none can be left out.
func (s *signature) sign(m *dns.Msg) ([]byte, error) {
	if s == nil {
		return m.Pack()
	}
	m.Extra = append(m.Extra, s.record(m.Id))
	packed, mac, err := dns.TsigGenerate(m, s.key.secret, s.mac, s.more)
	s.mac, s.more = mac, true
	return packed, err
}

// signPacked signs an answer that is packed already.
func (s *signature) signPacked(reply []byte) []byte {
	if s == nil || reply == nil {
		return reply
	}
	m := new(dns.Msg)
	if err := m.Unpack(reply); err != nil {
		return nil // cannot be: we packed it
	}
	m.Compress = true
	signed, err := s.sign(m)
	if err != nil {
		return nil // cannot be: the key has been used to verify the question
	}
	return signed
}
