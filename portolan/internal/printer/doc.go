// Package printer shows objects as tables and descriptions, with kubectl's columns where kubectl has them.
//
// A kind is shown by one row of [tables] (columns, and which of them only the wide form has) and, where there is more to say than
// metadata, by one row of describers. A kind without a row still prints its name and age.
package printer
