// Command check looks for security problems in the code, and in the modules from which the programs are
// built.
//
//	check code PACKAGE…
//	check vulnerabilities [-db URL] PROGRAM…
//
// # The code
//
// check code runs the rules of gosec on every package of the workspace that is linked into the
// named programs. Packages that only tests use, such as everything below faults, are not checked,
// because no attacker reaches them. Generated code is not checked either, because it cannot be annotated.
//
// The check fails if there is any finding. A finding is fixed, or the line is annotated with the rule and the
// reason:
//
//	rand.N(pause) // #nosec G404 -- a pause is no secret
//
// An annotation without a rule or without a reason is a finding too. Four rules are off:
//
//   - G103 reports every use of package unsafe, and G104 every ignored error, even if neither helps an
//     attacker.
//   - G115 reports conversions of integers that may overflow. It knows no ranges: of 131 findings on
//     25 November 2026 none was an error. They were bytes taken out of a number on purpose, lengths
//     that are bounded elsewhere, and ports that validation has checked. The fuzz targets compare
//     such numbers with the sent ones.
//   - G204 and G304 report every command and every file with a name that is not a constant, and a command
//     line has many of them. G702 and G703, which follow data from outside to such names, are on.
//
// gosec's own command is not used for two reasons. It loads each package separately with the source
// of all its dependencies, which takes minutes here, and it links the clients of three language
// models. check uses gosec's rules as a library. staticcheck was rejected, because hardly any of its checks is
// about security. golangci-lint was rejected, because it takes minutes to build and needs the same
// annotations.
//
// # The modules
//
// check vulnerabilities runs govulncheck on built programs. It compares the versions of their modules, and of
// Go, with the database of known vulnerabilities, and fails if a program contains a vulnerable function. It
// reads programs instead of sources, because users install programs, and because it takes seconds: sources
// would have to be loaded with all their imports. The price is that a linked function counts even if it is
// never called.
//
// The database is https://vuln.go.dev unless -db names another one, for example the folder of an
// unpacked https://vuln.go.dev/vulndb.zip as file:///FOLDER. If the default database cannot be
// reached, as in a build without network, check prints the reason and that nothing was checked, and
// succeeds, because a failure would depend on the network and not on the code. If a database that -db names
// cannot be read, check fails.
package main
