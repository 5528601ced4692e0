// Package terminal makes text from others safe to print: messages of conditions and Events,
// annotations, records of DNS, and errors of other daemons. A terminal obeys the control characters
// in such text. An attacker could change the title or the clipboard, delete lines above, or reverse
// the order of the characters of a line.
//
// The command line writes everything through [Writer]. It replaces each character that is not
// visible by its escape in JSON, so that JSON stays the same document and one form serves all
// output. Tables also use [Line], so that text from others cannot begin a line or a column of its
// own. Refusing such characters in the registry would not be enough, because text also comes from
// daemons that the command line asks directly.
package terminal
