// Package compile compiles the contract for the generator and for the linter.
package compile
