// Package statestream serves streams on which a client sends its whole state, again every few seconds and
// after each change, and the server answers with the newest answer when it has another one. So a lost
// message or answer does no harm, and neither side keeps a backlog.
//
// The invariants: a stream ends if its client is silent or sends too many messages, and the first reason
// to end it is the error that the client gets. Node agents announce addresses to lbctl this way, and edges
// tell their agents which addresses they serve.
package statestream
