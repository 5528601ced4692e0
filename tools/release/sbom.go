package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// ours begins the import paths of this repository.
const ours = "portolan.dev/"

// makeSBOM writes a bill of materials in the format of CycloneDX. It lists the programs, and the modules and
// the release of Go that the linker recorded in each program.
func (r *release) makeSBOM() error {
	modules := map[string]cdx.Component{} // by reference
	needs := map[string]map[string]bool{} // by program: the references of its modules on any architecture
	for _, arch := range r.arches {
		for _, name := range r.programs() {
			info, err := buildinfo.ReadFile(r.program(arch, name))
			if err != nil {
				return err
			}
			if needs[name] == nil {
				needs[name] = map[string]bool{}
			}
			for _, m := range r.materials(info) {
				modules[m.BOMRef], needs[name][m.BOMRef] = m, true
			}
		}
	}
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(r.bom(modules, needs), cdx.SpecVersion1_6); err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, fmt.Sprintf("portolan_%s.cdx.json", r.version)), out.Bytes())
}

// bom returns the document. Its serial number is computed from the version and the commit, so that it is
// reproducible.
func (r *release) bom(modules map[string]cdx.Component, needs map[string]map[string]bool) *cdx.BOM {
	bom := cdx.NewBOM()
	subject := r.application("portolan.dev")
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(subject.PackageURL+"?commit="+r.commit)).URN()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &subject}
	components, dependencies := []cdx.Component{}, []cdx.Dependency{}
	programs := []string{}
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		program := r.application(ours + name + "/cmd/" + name)
		components, programs = append(components, program), append(programs, program.BOMRef)
		of := slices.Sorted(maps.Keys(needs[name]))
		dependencies = append(dependencies, cdx.Dependency{Ref: program.BOMRef, Dependencies: &of})
	}
	dependencies = append(dependencies, cdx.Dependency{Ref: subject.BOMRef, Dependencies: &programs})
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		components = append(components, modules[ref])
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	return bom
}

func (r *release) application(path string) cdx.Component {
	url := "pkg:golang/" + path + "@" + r.version
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeApplication, Name: path, Version: r.version, PackageURL: url}
}

// materials returns the modules of other projects in a program, and Go's standard library.
func (r *release) materials(info *debug.BuildInfo) []cdx.Component {
	found := []cdx.Component{library("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		if m.Replace != nil && m.Replace.Version != "" {
			m = m.Replace
		}
		if !strings.HasPrefix(m.Path, ours) {
			found = append(found, library(m.Path, m.Version, m.Sum))
		}
	}
	return found
}

// library returns the component of a module. Its hash is the hash of the module's files in go.sum.
func library(path, version, sum string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: cmp.Or(version, "unknown"), PackageURL: url}
	if hash, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(hash) == sha256.Size {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}
	}
	return c
}
