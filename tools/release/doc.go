// Command release makes what is installed: Debian packages, archives, checksums and a bill of
// materials (SBOM).
//
//	release packages [flags]   the packages of every architecture, and SHA256SUMS
//	release all      [flags]   the packages, the archives, the SBOM, and SHA256SUMS
//	release check    [flags]   makes all in two folders, from two copies of the sources, and compares the bytes
//
// # What a package is made of
//
// There is a package for each daemon, one for the command line (portolan), and portolan-common with
// the files that the daemons share. Nothing is listed twice: a daemon's package follows from its
// name, which the Makefile passes (-daemons). Its unit and its sample configuration are in
// deploy/systemd, its description and its user are in the unit, and its manual page is one of those
// that "portolan man" writes. A daemon that lacks one of these is an error. The maintainer scripts
// are in deploy/packages; dpkg tells them the name of the package, so all daemons have the same ones.
//
// # Reproducibility
//
// The same sources, version, commit, time and release of Go make the same bytes, in any folder and
// on any machine. Programs are built with -trimpath, without the record of version control and
// without a build ID; version and commit are stamped by the linker (services/kit/obs). Files in
// packages and archives belong to root, are sorted, and have the time of the last commit or that of
// SOURCE_DATE_EPOCH. Manual pages and the SBOM have the same time. Programs are static: CGO is off.
//
// # Choices
//
// nfpm is used as a library, because dpkg-deb exists only on Debian and would need a folder owned by
// root. Its YAML files were rejected, because they would repeat for each daemon what the units say.
// nfpm 2.45.0 is the latest release whose modules can all be had from the public module proxy.
//
// goreleaser does all of this from one file. It was rejected because it brings several hundred
// modules, and because its packages cannot be derived from the units.
package main
