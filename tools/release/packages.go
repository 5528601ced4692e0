package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// common is the package with the files that all daemons share.
const common = "portolan-common"

// packageOf returns the name of a daemon's package. Its unit has the same name.
func packageOf(daemon string) string { return "portolan-" + daemon }

// entry is a file or a folder of a package.
type entry struct {
	path   string // of the installed file
	source string // path of the file to copy; empty: the entry is a folder
	mode   fs.FileMode
	config bool // dpkg keeps changes of an administrator
}

// pkg is a package.
type pkg struct {
	name, description   string
	independent         bool // the same for all architectures
	depends, recommends []string
	scripts             string // folder of the maintainer scripts in deploy/packages; empty: none
	entries             []entry
}

// makePackages writes all packages of all architectures.
func (r *release) makePackages() error {
	for i, arch := range r.arches {
		packages, err := r.packages(arch)
		if err != nil {
			return err
		}
		for _, p := range packages {
			if p.independent && i > 0 {
				continue // it was written with the first architecture
			}
			if err := r.writePackage(p, arch); err != nil {
				return fmt.Errorf("package %s: %w", p.name, err)
			}
		}
	}
	return nil
}

// packages returns the packages of an architecture.
func (r *release) packages(arch string) ([]pkg, error) {
	client, err := r.commandLinePackage(arch)
	all := []pkg{r.commonPackage(), client}
	for _, daemon := range r.daemons {
		p, problem := r.daemonPackage(arch, daemon)
		err = errors.Join(err, problem)
		all = append(all, p)
	}
	for i := range all {
		all[i].entries = append(all[i].entries, entry{"/usr/share/doc/" + all[i].name + "/copyright", filepath.Join(r.root, "LICENSE"), 0o644, false})
	}
	return all, err
}

// unitFolder is the folder of the units of packages in Debian 12 and its derivatives.
const unitFolder = "/lib/systemd/system/"

func (r *release) commonPackage() pkg {
	p := pkg{
		name: common, description: "Portolan: files that all daemons share", independent: true, scripts: "common",
		depends: []string{"systemd (>= 247)"}, // LoadCredential=
		entries: []entry{
			{path: "/etc/portolan", mode: 0o755},
			{path: "/etc/portolan/tls", mode: 0o700},
		},
	}
	for _, name := range []string{"portolan-.service.d/10-common.conf", "renewed-portolan@.path", "renewed-portolan@.service"} {
		p.entries = append(p.entries, entry{unitFolder + name, r.deployed("systemd", name), 0o644, false})
	}
	return p
}

func (r *release) commandLinePackage(arch string) (pkg, error) {
	p := pkg{
		name: commandLine, description: "Portolan: the command line",
		entries: []entry{{"/usr/bin/" + commandLine, r.program(arch, commandLine), 0o755, false}},
	}
	for shell, path := range shells {
		p.entries = append(p.entries, entry{path, r.generated("completion", shell), 0o644, false})
	}
	// These units contain addresses of registries and a user of another package, so they are installed as
	// examples.
	for _, name := range []string{"renew-portolan-monitor.service", "renew-portolan-monitor.timer"} {
		p.entries = append(p.entries, entry{"/usr/share/doc/portolan/examples/" + name, r.deployed("systemd", name), 0o644, false})
	}
	pages, err := filepath.Glob(r.generated("man", "*.1.gz"))
	if len(pages) == 0 {
		err = errors.Join(err, errors.New("portolan man has written no page of section 1"))
	}
	for _, page := range pages {
		p.entries = append(p.entries, entry{"/usr/share/man/man1/" + filepath.Base(page), page, 0o644, false})
	}
	return p, err
}

func (r *release) daemonPackage(arch, daemon string) (pkg, error) {
	u, err := r.readUnit(daemon)
	if err != nil {
		return pkg{}, err
	}
	page := r.generated("man", daemon+".8.gz")
	if _, err := os.Stat(page); err != nil {
		return pkg{}, fmt.Errorf("%w: portolan man writes no page for %s; add it to portolan/internal/manual", err, daemon)
	}
	name := packageOf(daemon)
	p := pkg{
		name: name, description: u.description, scripts: "daemon",
		depends: []string{common + " (>= " + r.version + ")"}, recommends: []string{commandLine},
		entries: []entry{
			{"/usr/bin/" + daemon, r.program(arch, daemon), 0o755, false},
			{"/etc/portolan/" + daemon + ".yaml", r.deployed("systemd", "etc", daemon+".yaml"), 0o644, true},
			{unitFolder + name + ".service", r.deployed("systemd", name+".service"), 0o644, false},
			{"/usr/share/man/man8/" + daemon + ".8.gz", page, 0o644, false},
		},
	}
	if u.user != "root" {
		p.entries = append(p.entries, entry{"/usr/lib/sysusers.d/" + name + ".conf", r.generated("sysusers", daemon), 0o644, false})
	}
	if daemon == "nodeagent" { // the other daemons need no modules of the kernel
		p.entries = append(p.entries, entry{"/usr/lib/modules-load.d/portolan.conf", r.deployed("systemd", "portolan.modules"), 0o644, false})
	}
	return p, nil
}

// writePackage writes a package into the folder of the results.
func (r *release) writePackage(p pkg, arch string) error {
	if p.independent {
		arch = "all"
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: p.name, Arch: arch, Platform: "linux", Version: r.version, VersionSchema: "none",
		Section: "net", Priority: "optional", Maintainer: r.maintainer, Description: p.description,
		License: "Apache-2.0", DisableGlobbing: true, MTime: r.time,
	})
	info.Depends, info.Recommends = p.depends, p.recommends
	info.Scripts = r.scripts(p.scripts)
	for _, e := range sorted(p.entries) {
		content := &files.Content{Source: e.source, Destination: e.path, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: e.mode, MTime: r.time}}
		switch {
		case e.source == "":
			content.Type = files.TypeDir
		case e.config:
			content.Type = files.TypeConfig
		}
		info.Contents = append(info.Contents, content)
	}
	file, err := os.Create(filepath.Join(r.out, fmt.Sprintf("%s_%s_%s.deb", p.name, r.version, arch)))
	if err != nil {
		return err
	}
	return errors.Join(deb.Default.Package(info, file), file.Close())
}

// scripts returns the maintainer scripts of a folder in deploy/packages.
func (r *release) scripts(folder string) nfpm.Scripts {
	existing := func(name string) string {
		if path := r.deployed("packages", folder, name); folder != "" && isFile(path) {
			return path
		}
		return ""
	}
	return nfpm.Scripts{PostInstall: existing("postinst"), PreRemove: existing("prerm"), PostRemove: existing("postrm")}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// sorted returns the entries in the order of their paths.
func sorted(entries []entry) []entry {
	return slices.SortedFunc(slices.Values(entries), func(a, b entry) int {
		if a.path < b.path {
			return -1
		}
		return 1
	})
}
