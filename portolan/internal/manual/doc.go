// Package manual writes manual pages. It makes the pages of the command line from its commands, and
// the pages of the daemons from their settings, so that no page can be out of date.
package manual
