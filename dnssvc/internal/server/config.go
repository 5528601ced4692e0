package server

import (
	"log/slog"
	"net/netip"
	"time"

	"portolan.dev/dnssvc/internal/zone"
)

// Config is the configuration of a server. Names and Log are required.
type Config struct {
	Names func() *zone.Snapshot
	Log   *slog.Logger
	// Forward answers questions about other names. If it is nil, they are refused.
	Forward Forwarder
	// Transfer allows transfers of whole zones to secondaries. If it is nil, no client gets any.
	Transfer *Transfer
	// Keys are the keys of secondaries. The answer to a signed question is signed. If there are
	// keys, transfers must be signed.
	Keys Keys
	// Clients are the addresses that may get answers by UDP that are longer than their questions.
	// The source address of a packet from elsewhere may be forged, so its answer is truncated if it
	// is longer than the question; the client gets all records by TCP. Default: all addresses.
	Clients []netip.Prefix
	// MaxUDP is the largest answer by UDP, in bytes. Default 1232, which no path fragments.
	MaxUDP int
	// MaxRecordsUDP and MaxRecordsTCP bound the records of a set in one answer. If a set has more,
	// the answer has part of them, and each answer another part. Default: as many as fit.
	MaxRecordsUDP, MaxRecordsTCP int
	// IdleTimeout is the time after which a TCP connection without a question, or with an incomplete
	// one, is closed. Default 10 s.
	IdleTimeout time.Duration
	// MaxConns bounds all TCP connections. MaxConnsPerClient bounds the connections of one address, or
	// of one network of IPv6 with a prefix of 64 bits. Defaults 2000 and 200.
	MaxConns, MaxConnsPerClient int
	// MaxPending bounds the questions that wait for upstream servers. Clients share it, see
	// pendingLimit. Default 2000.
	MaxPending int
	// Workers is the number of goroutines that read from each UDP socket. Default 1.
	Workers int
	// LogQueries logs a line for every question.
	LogQueries bool
	// OrdinaryOnly turns the fast path off.
	OrdinaryOnly bool
}

func (c Config) withDefaults() Config {
	def := func(v *int, value int) {
		if *v == 0 {
			*v = value
		}
	}
	def(&c.MaxUDP, 1232)
	def(&c.MaxRecordsUDP, tcpRecords)
	def(&c.MaxRecordsTCP, tcpRecords)
	def(&c.MaxConns, 2000)
	def(&c.MaxConnsPerClient, 200)
	def(&c.MaxPending, 2000)
	def(&c.Workers, 1)
	if c.IdleTimeout == 0 {
		c.IdleTimeout = 10 * time.Second
	}
	return c
}

// Numbers of records of one set.
const (
	// tcpRecords is the number of IPv4 addresses, which are the smallest records, that fit into
	// an answer by TCP.
	tcpRecords = (tcpLimit - headerSize - 1 - questionTail) / (fixedRR + 4)
	// allRecords is more than the records of any set.
	allRecords = 1 << 16
)

// recordLimits holds the largest number of records of a set in one answer, by transport.
type recordLimits struct{ udp, tcp int }

func (c Config) recordLimits() recordLimits {
	return recordLimits{udp: min(c.MaxRecordsUDP, tcpRecords), tcp: min(c.MaxRecordsTCP, tcpRecords)}
}

func (m recordLimits) forTransport(tcp bool) int {
	if tcp {
		return m.tcp
	}
	return m.udp
}
