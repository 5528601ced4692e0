package printer

import (
	"fmt"
	"io"
	"text/tabwriter"

	edgev1 "portolan.dev/api/edge/v1"
)

// EdgeStatus prints the status of an edge, and its ports with their backends.
func EdgeStatus(w io.Writer, s *edgev1.GetStatusResponse) error {
	d := description{out: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	d.line("Node", "%s", s.GetNode())
	d.line("Zone", "%s", orDash(s.GetZone()))
	view := fmt.Sprintf("revision %d, %s old", s.GetViewRevision(), seconds(edgeViewAge(s)))
	if !s.GetSynced() {
		view += ", not from the registry yet"
	}
	d.line("View", "%s", view)
	d.line("Stopping", "%t", s.GetStopping())
	if s.GetAgentError() != "" {
		d.line("Agent", "%s", s.GetAgentError())
	}
	d.lines("Warnings", s.GetWarnings())
	if err := d.out.Flush(); err != nil {
		return err
	}
	for _, port := range s.GetPorts() {
		_, _ = fmt.Fprintln(w)
		if err := edgePort(w, port); err != nil {
			return err
		}
	}
	if n := s.GetMorePorts(); n > 0 {
		_, _ = fmt.Fprintf(w, "\nand %d more ports: ask for one namespace or service\n", n)
	}
	return nil
}

func edgePort(w io.Writer, p *edgev1.Port) error {
	d := description{out: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	d.line("Port", "%s of service %s/%s", p.GetFrontend(), p.GetNamespace(), p.GetService())
	state := "open"
	if !p.GetListening() {
		state = "closed: " + p.GetError()
	}
	d.line("State", "%s", state)
	client := "clear text"
	if p.GetTls() {
		client = "TLS"
	}
	d.line("Protocol", "%s from clients, %s to backends", client, p.GetBackendProtocol())
	d.line("Connections", "%d, %d since the port was opened", p.GetConnections(), p.GetConnectionsTotal())
	d.lines("Problems", p.GetProblems())
	var backends []string
	for _, b := range p.GetBackends() {
		line := fmt.Sprintf("%s weight %d, %d sessions", b.GetAddress(), b.GetWeight(), b.GetSessions())
		if !b.GetUsable() {
			line += ", not usable: " + b.GetReason()
		}
		backends = append(backends, line)
	}
	d.lines("Backends", backends)
	return d.out.Flush()
}

// edgeViewAge returns the age of an edge's view in seconds. Edges of earlier releases send only
// view_age_seconds.
func edgeViewAge(s *edgev1.GetStatusResponse) float64 {
	if s.GetViewAge() != nil {
		return s.GetViewAge().AsDuration().Seconds()
	}
	return s.GetViewAgeSeconds()
}
