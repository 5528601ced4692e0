// Package printer prints objects as tables and descriptions, with kubectl's columns where kubectl
// has them.
//
// The layouts in kinds.go hold the columns of each kind, some of which appear only in the wide form, and
// the function that describes an object of the kind beyond its metadata. A kind without a layout is
// printed with its name and age.
package printer
