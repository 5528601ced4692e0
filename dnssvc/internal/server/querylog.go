package server

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/miekg/dns"
)

// logQuery logs a question, which it reads from the answer.
func (s *Server) logQuery(transport string, client netip.AddrPort, reply []byte) {
	if !s.cfg.LogQueries || len(reply) < headerSize {
		return
	}
	name, qtype := "", dns.TypeNone
	if reply[5] == 1 {
		if text, off, err := dns.UnpackDomainName(reply, headerSize); err == nil && off+2 <= len(reply) {
			name, qtype = text, uint16(reply[off])<<8|uint16(reply[off+1])
		}
	}
	s.cfg.Log.LogAttrs(context.Background(), slog.LevelInfo, "query",
		slog.String("transport", transport), slog.String("client", client.String()),
		slog.String("name", name), slog.String("type", dns.Type(qtype).String()),
		slog.String("rcode", dns.RcodeToString[int(reply[3]&0xf)]), slog.Int("size", len(reply)),
		slog.Bool("truncated", reply[2]&(flagTC>>8) != 0))
}
