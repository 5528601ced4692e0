package server

import (
	"net/http"
	"slices"
	"time"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/audit"
)

// record adds a request to the audit log if it is a write or was refused, or if the log records reads too.
// The registry also records each write, with the object's revision. But only kubeapi's line has the client's
// address, and only kubeapi's log has the requests that kubeapi refused itself.
func (req *request) record(err error) {
	log := req.server.cfg.Audit
	refused := req.code == http.StatusUnauthorized || req.code == http.StatusForbidden
	if log == nil || !refused && !log.Reads() && !req.writes() {
		return
	}
	e := audit.Entry{
		Time: req.begun, Token: req.client.Token, Serial: req.client.Serial, Peer: req.r.RemoteAddr, Method: req.r.Method + " " + req.r.URL.Path,
		Code: audit.CodeOfHTTP(req.code), Reason: apierr.Summary(err), Seconds: time.Since(req.begun).Seconds(),
		Object: audit.Object{Namespace: req.namespace, Name: req.name, DryRun: req.query.Has("dryRun")},
	}
	if req.client.ID.Role != "" {
		e.Identity = req.client.ID.Path()
	}
	if req.resource != nil {
		e.Kind = req.resource.Kind.Kind
	}
	log.Record(&e)
}

// writes reports whether the request changes objects if it succeeds.
func (req *request) writes() bool {
	changes := slices.Contains([]string{verbCreate, verbUpdate, verbPatch, verbDelete, verbDeleteCollection}, req.verb)
	return changes && !req.resource.IsReview()
}
