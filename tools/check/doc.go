// Command check looks for security problems: in the code, and in the versions of the modules that
// the programs are built from.
//
//	check code PACKAGE…
//	check vulnerabilities [-db URL] PROGRAM…
//
// # The code
//
// check code runs the rules of gosec on every package of the workspace that is linked into the
// named programs. Packages that only tests use, as everything below faults, are not checked,
// because they meet no attacker. Neither is generated code, which cannot be annotated.
//
// The invariant: there are no findings. A finding is mended, or the line is annotated with the rule
// and the reason:
//
//	rand.N(pause) // #nosec G404 -- a pause is no secret
//
// An annotation without a rule or without a reason is a finding too. Four rules are off:
//
//   - G103 reports every use of package unsafe and G104 every error that is dropped, whether or not
//     it can be used in an attack.
//   - G115 reports conversions of integers that may overflow. It knows no ranges: of 131 findings on
//     25 November 2026 none was an error. They were bytes taken out of a number on purpose, lengths
//     that are bounded elsewhere, and ports that validation has checked. The fuzz targets compare
//     such numbers with what was sent.
//   - G204 and G304 report every command and every file whose name is not a constant, which is what
//     a command line does. G702 and G703, which follow data from outside to such names, are on.
//
// gosec's own command is not used for two reasons. It loads each package by itself with the source
// of everything below it, which takes minutes here, and it links the clients of three language
// models. Its rules are a library. staticcheck was rejected, because hardly any of its checks is
// about security. golangci-lint was rejected, because it takes minutes to build and needs the same
// annotations.
//
// # The modules
//
// check vulnerabilities runs govulncheck on programs as they are built: it compares the versions of
// the modules, and of Go, with the database of known vulnerabilities, and fails if a program
// contains a vulnerable function. It reads programs instead of sources, because programs are what
// is installed, and because it takes seconds: sources would have to be loaded with all that they
// import. The price is that a function which is linked but never called counts too.
//
// The database is https://vuln.go.dev unless -db names another one, for example the folder of an
// unpacked https://vuln.go.dev/vulndb.zip as file:///FOLDER. If the default database cannot be
// reached, as in a build without network, check says that nothing was checked, and why, and
// succeeds: a failure would depend on the network and not on the code. A database that was named
// and cannot be read is a failure.
package main
