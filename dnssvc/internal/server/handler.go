package server

import (
	"context"
	"encoding/binary"
	"net/netip"
	"sync/atomic"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/zone"
)

// Forwarder answers questions about names outside of the zones.
type Forwarder interface {
	// Allowed reports whether a client may ask for such names.
	Allowed(client netip.Addr) bool
	// Exchange returns the answer to q. The answer may be shared, so the caller must not change it.
	Exchange(ctx context.Context, q dns.Question) (*dns.Msg, error)
}

// Handler is the ordinary, complete implementation of the answers.
type Handler struct {
	names        func() *zone.Snapshot
	maxUDP       int
	recordLimits recordLimits
	forward      Forwarder // nil if other names are refused
	keys         Keys
	rotate       atomic.Uint32
	partial      atomic.Uint64 // answers with a part of a set
	badSigs      atomic.Uint64 // questions with an invalid signature
}

// NewHandler returns a handler. It uses Names and the bounds of answers of the configuration.
func NewHandler(cfg Config) *Handler {
	cfg = cfg.withDefaults()
	return &Handler{names: cfg.Names, maxUDP: cfg.MaxUDP, recordLimits: cfg.recordLimits(), forward: cfg.Forward, keys: cfg.Keys}
}

// Query is a received question.
type Query struct {
	Packet          []byte // valid until the first answer
	Client          netip.AddrPort
	TCP             bool
	NoAmplification bool // the answer must not be longer than the packet
}

// Handle answers a question. The reply is nil if the packet gets no answer. If later is not nil,
// the answer depends on an upstream server: the caller calls later where it may block, and later
// returns the reply.
func (h *Handler) Handle(q Query) (reply []byte, later func(context.Context) []byte) {
	reply, later = h.handle(q)
	if q.NoAmplification && len(reply) > len(q.Packet) {
		// The question is packed more tightly than any client packs it.
		return errorReply(q.Packet, dns.RcodeFormatError), nil
	}
	return reply, later
}

func (h *Handler) handle(q Query) (reply []byte, later func(context.Context) []byte) {
	if len(q.Packet) < headerSize || q.Packet[2]&0x80 != 0 {
		return nil, nil // an answer gets no answer, because two servers could otherwise go on forever
	}
	if flags := binary.BigEndian.Uint16(q.Packet[2:]); flags&opcodeMask != 0 {
		return errorReply(q.Packet, dns.RcodeNotImplemented), nil
	}
	req := new(dns.Msg)
	if err := req.Unpack(q.Packet); err != nil || len(req.Question) != 1 {
		return errorReply(q.Packet, dns.RcodeFormatError), nil
	}
	sig, err := h.signature(req, q.Packet)
	if err != nil {
		return errorReply(q.Packet, dns.RcodeFormatError), nil
	}
	reply, later = h.answerQuestion(req, q, sig)
	if later == nil || sig == nil {
		return sig.signPacked(reply), later
	}
	return nil, func(ctx context.Context) []byte { return sig.signPacked(later(ctx)) }
}

// signature reads the signature of a question, and counts invalid ones.
func (h *Handler) signature(req *dns.Msg, packet []byte) (*signature, error) {
	sig, err := h.keys.verify(req, packet)
	if err != nil || sig != nil && sig.fault != 0 {
		h.badSigs.Add(1)
	}
	return sig, err
}

// answerQuestion answers a question, and leaves room for the signature.
func (h *Handler) answerQuestion(req *dns.Msg, q Query, sig *signature) (reply []byte, later func(context.Context) []byte) {
	e := readEDNS(req, h.maxUDP)
	limit := sizeLimit{bytes: e.size}
	switch {
	case q.TCP:
		limit = sizeLimit{bytes: tcpLimit, lastTransport: true}
	case q.NoAmplification:
		limit.bytes = min(e.size, len(q.Packet))
	}
	limit.bytes -= sig.room()
	switch question := req.Question[0]; {
	case e.rcode != 0:
		return refusal(e.rcode).reply(req, limit, e.opt), nil
	case sig != nil && sig.fault != 0:
		return refusal(dns.RcodeNotAuth).reply(req, limit, e.opt), nil
	case question.Qclass != dns.ClassINET,
		// Transfers are handled by tcpConn.transfer, by TCP.
		question.Qtype == dns.TypeAXFR, question.Qtype == dns.TypeIXFR:
		return refusal(dns.RcodeRefused).reply(req, limit, e.opt), nil
	case question.Qtype == dns.TypeOPT || question.Qtype == dns.TypeNone:
		return refusal(dns.RcodeFormatError).reply(req, limit, e.opt), nil
	}
	return h.answer(req, q.Client.Addr(), limit, e.opt)
}

// mayRecurse reports whether a client may ask for other names.
func (h *Handler) mayRecurse(client netip.Addr) bool {
	return h.forward != nil && h.forward.Allowed(client)
}

func refusal(rcode int) *answer { return &answer{rcode: rcode, outOfZone: true} }

func (h *Handler) answer(req *dns.Msg, client netip.Addr, limit sizeLimit, opt *dns.OPT) ([]byte, func(context.Context) []byte) {
	question := req.Question[0]
	a := resolve(h.names(), question.Name, question.Qtype, h.rotate.Add(1), h.recordLimits.forTransport(limit.lastTransport))
	recursion := h.mayRecurse(client)
	pack := func() []byte {
		packed := a.reply(req, limit, opt)
		if a.partial && packed[2]&(flagTC>>8) == 0 {
			h.partial.Add(1)
		}
		if recursion {
			packed[3] |= flagRA
		}
		return packed
	}
	if !recursion || !req.RecursionDesired || !a.outOfZone && a.externalAlias == "" {
		return pack(), nil
	}
	return nil, func(ctx context.Context) []byte {
		h.addUpstreamAnswer(ctx, &a, question)
		return pack()
	}
}

// addUpstreamAnswer adds the answer of the upstream servers. If they fail, an answer keeps the
// aliases in the zones, while a question for a name outside fails.
func (h *Handler) addUpstreamAnswer(ctx context.Context, a *answer, question dns.Question) {
	if a.externalAlias != "" {
		question.Name = a.externalAlias
	}
	theirs, err := h.forward.Exchange(ctx, question)
	switch {
	case err != nil && a.outOfZone:
		a.rcode = dns.RcodeServerFailure
	case err != nil:
	default:
		a.rcode = theirs.Rcode
		a.answer = append(a.answer, bySet(theirs.Answer)...)
		a.authority = theirs.Ns
	}
}

// bySet groups consecutive records by name and type.
func bySet(rrs []dns.RR) [][]dns.RR {
	var sets [][]dns.RR
	for i, rr := range rrs {
		h := rr.Header()
		if i > 0 {
			if last := rrs[i-1].Header(); h.Rrtype == last.Rrtype && sameName(h.Name, last.Name) {
				sets[len(sets)-1] = append(sets[len(sets)-1], rr)
				continue
			}
		}
		sets = append(sets, []dns.RR{rr})
	}
	return sets
}
