// Package ending names the ways in which connections and requests end. The code that moves the bytes decides once which
// way it was; the ejector, the access logs and the metrics go by it.
//
// A client can end an exchange at any time, and so can the edge. Neither says anything about the backend. Therefore only an
// ending that the backend has caused counts as its failure.
package ending
