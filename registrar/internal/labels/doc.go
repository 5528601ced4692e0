// Package labels reads the labels that people give a workload: the service that it is a backend of, its
// ports, the check of its readiness. The table in table.go has a row for each label. A Docker label and a
// key in a unit file are two spellings of one row, so both sources accept the same values and report the
// same mistakes.
//
// A label that cannot be read is reported and ignored, and the workload is registered without it. Three
// labels are different, because traffic would go to the wrong place without them: without a readable
// service, or with an unreadable namespace, there is no workload, and a workload with an unreadable check
// is never ready.
package labels
