package server

import (
	"log/slog"
	"net/netip"
	"time"

	"portolan.dev/dnssvc/zone"
)

// Config says how questions are answered. Names and Log are required.
type Config struct {
	Names func() *zone.Snapshot
	Log   *slog.Logger
	// Forward answers for other names; nil: they are refused.
	Forward Forwarder
	// Transfer gives whole zones to secondaries; nil: to nobody.
	Transfer *Transfer
	// Keys are the keys of secondaries. An answer to a signed question is signed. With keys, transfers
	// must be signed.
	Keys Keys
	// Clients are who may get more by UDP than they send. Others may not be who they say: an answer longer than their question is truncated,
	// and TCP has it all. Default: everybody.
	Clients []netip.Prefix
	// MaxUDP bounds answers by UDP, in bytes. Default 1232, which no path fragments.
	MaxUDP int
	// MaxRecordsUDP and MaxRecordsTCP bound the records of a set in the answer to one question. Of
	// a larger set the answer has a part, each time another one. Default: as many as fit.
	MaxRecordsUDP, MaxRecordsTCP int
	// IdleTimeout ends TCP connections on which nothing is asked, and those that take longer to write one question. Default 10 s.
	IdleTimeout time.Duration
	// MaxConns bounds TCP connections, MaxConnsPerClient those of one address. Default 2000 and 200.
	MaxConns, MaxConnsPerClient int
	// MaxPending bounds questions that wait for upstream servers. Default 2000.
	MaxPending int
	// Workers is the number of goroutines that read from one UDP socket. Default: one.
	Workers int
	// LogQueries writes a line for every question.
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
	def(&c.MaxRecordsUDP, streamRecords)
	def(&c.MaxRecordsTCP, streamRecords)
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
	// streamRecords fit into an answer by TCP: IPv4 addresses, which are the smallest records.
	streamRecords = (streamLimit - headerSize - 1 - questionTail) / (fixedRR + 4)
	// allRecords is more than any set has.
	allRecords = 1 << 16
)

// maxRecords bounds the records of a set in an answer.
type maxRecords struct{ udp, tcp int }

func (c Config) maxRecords() maxRecords {
	return maxRecords{udp: min(c.MaxRecordsUDP, streamRecords), tcp: min(c.MaxRecordsTCP, streamRecords)}
}

func (m maxRecords) of(tcp bool) int {
	if tcp {
		return m.tcp
	}
	return m.udp
}
