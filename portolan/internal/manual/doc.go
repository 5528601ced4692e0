// Package manual writes manual pages: of the command line from its commands, of
// the daemons from their settings, so that no page can be out of date.
package manual
