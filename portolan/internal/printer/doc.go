// Package printer prints objects as tables and descriptions, with kubectl's columns where kubectl
// has them.
//
// A row of [tables] holds the columns of a kind, some of which appear only in the wide form. A row
// of describers describes a kind beyond its metadata. A kind without a row is printed with its name
// and age.
package printer
