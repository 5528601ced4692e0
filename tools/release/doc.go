// Command release makes the files that are published: Debian packages, archives, checksums and a bill of
// materials (SBOM).
//
//	release packages [flags]   the packages of every architecture, and SHA256SUMS
//	release all      [flags]   the packages, the archives, the SBOM, and SHA256SUMS
//	release check    [flags]   makes all files twice, from two copies of the sources, and compares them
//
// # The contents of a package
//
// There is a package for each daemon, one for the command line (portolan), and portolan-common with
// the files that the daemons share. The package of a daemon follows from the daemon's name, which the
// Makefile passes (-daemons). The unit and the sample configuration are in deploy/systemd, the description
// and the user are in the unit, and "portolan man" writes the manual page. It is an error if a daemon lacks
// one of them. The maintainer scripts are in deploy/packages. dpkg passes them the name of the package, so
// all daemons share them.
//
// # Reproducibility
//
// The same sources, version, commit, time and release of Go make the same bytes, in any folder and
// on any machine. Programs are built with -trimpath, without the record of version control and
// without a build ID; version and commit are stamped by the linker (services/kit/obs). Files in
// packages and archives belong to root and are sorted. Their time is SOURCE_DATE_EPOCH, or otherwise the time
// of the last commit. Manual pages and the SBOM have the same time. Programs are static: CGO is off.
//
// # Choices
//
// nfpm is used as a library, because dpkg-deb exists only on Debian and would need a folder owned by
// root. nfpm's YAML files were rejected, because they would repeat the units of the daemons. nfpm 2.45.0 is the
// latest release for which the public module proxy has all modules.
//
// goreleaser does all of this from one file. It was rejected because it brings several hundred
// modules, and because its packages cannot be derived from the units.
package main
