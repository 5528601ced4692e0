package kernel

import "portolan.dev/nodeagent/plan"

// EncodeFront returns the journal's key and value of a frontend.
func EncodeFront(at plan.Frontend, servers [3]*plan.VirtualServer) (key, value string) {
	f := &frontendState{at: at, servers: servers}
	return journalKey(at), string(f.appendRecord(nil))
}

// DecodeFront is the inverse of EncodeFront.
func DecodeFront(key, value string) ([3]*plan.VirtualServer, error) {
	f, err := readRecord(key, value)
	if err != nil {
		return [3]*plan.VirtualServer{}, err
	}
	return f.servers, nil
}

// EncodeSources returns the journal's value of the sources.
func EncodeSources(s *plan.Sources) string { return string(appendSources(nil, s)) }

// DecodeSources is the inverse of EncodeSources.
func DecodeSources(value string) (s plan.Sources, err error) { return s, readSources(value, &s) }

// Kill ends Locals like the death of the process: everything stays as it is.
func (l *Locals) Kill() {
	close(l.stop)
	<-l.stopped
	l.routes.Close()
	if l.journal != nil {
		l.journal.file.Close()
	}
}
