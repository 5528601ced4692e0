// Package dnstest makes objects, and asks questions, for tests of the name server.
package dnstest
