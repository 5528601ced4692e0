// Package hello is the backend of the examples: a small HTTP server that says who it is. It lives in the command line so that trying Portolan
// needs no second program; backends of your own need nothing from it.
package hello
