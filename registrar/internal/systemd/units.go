package systemd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"portolan.dev/registrar/source"
)

// reasonUnreadable is the reason if the files of a unit cannot be read.
const reasonUnreadable = "UnreadableUnit"

// units has the state of all running services of systemd.
type units struct {
	bus  *bus
	root string // folder of the unit files
	byID map[string]*unit
}

// unit is a running service.
type unit struct {
	listed
	files       []stamp // the files from which description was read
	description description
	// isolated is true if the unit has a network namespace of its own.
	isolated bool
	// mainPID is the unit's main process. It is known only while the unit stops.
	mainPID uint32
}

func newUnits(b *bus, root string) *units {
	return &units{bus: b, root: root, byID: map[string]*unit{}}
}

// read reads the units that have changed. It returns an error if the bus or systemd does not answer.
func (u *units) read(ctx context.Context, c changed) error {
	if c.all {
		if err := u.bus.subscribe(ctx); err != nil {
			return err
		}
	}
	list, err := u.bus.list(ctx, c.patterns())
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, l := range list {
		if !runs(l) {
			continue
		}
		switch err := u.readUnit(ctx, l, c.all); {
		case err == nil:
			seen[l.Name] = true
		case !errors.Is(err, errGone):
			return err
		}
	}
	maps.DeleteFunc(u.byID, func(name string, _ *unit) bool { return (c.all || c.names[name]) && !seen[name] })
	return nil
}

// readUnit stores the state of a unit. It looks at the unit's files only if the unit is new or compare is
// true.
func (u *units) readUnit(ctx context.Context, l listed, compare bool) error {
	known, ok := u.byID[l.Name]
	next := &unit{listed: l}
	if ok {
		next.files, next.description, next.isolated = known.files, known.description, known.isolated
	}
	if !ok || compare {
		if err := u.compare(ctx, next, ok); err != nil {
			return err
		}
	}
	if next.registered() && l.ActiveState == deactivating {
		pid, err := property[uint32](ctx, u.bus, l.Path, serviceInterface, "MainPID")
		if err != nil {
			return err
		}
		next.mainPID = pid
	}
	u.byID[l.Name] = next
	return nil
}

// compare reads a unit's files if they differ from the files from which its description was read. For a known
// unit, it ignores changes that wait for a daemon-reload. A unit that is not known is described by its files
// as they are, because systemd does not return the text that it has read.
func (u *units) compare(ctx context.Context, next *unit, known bool) error {
	fragment, err := property[string](ctx, u.bus, next.Path, unitInterface, "FragmentPath")
	if err != nil {
		return err
	}
	dropIns, err := property[[]string](ctx, u.bus, next.Path, unitInterface, "DropInPaths")
	if err != nil {
		return err
	}
	var files []stamp
	for _, path := range append([]string{fragment}, dropIns...) {
		if path != "" {
			files = append(files, stampOf(u.root, path))
		}
	}
	if known && slices.Equal(files, next.files) {
		return nil
	}
	if known {
		waits, err := property[bool](ctx, u.bus, next.Path, unitInterface, "NeedDaemonReload")
		if err != nil || waits {
			return err
		}
	}
	next.files = files
	next.description = u.describe(next.Name, files)
	return u.readNetwork(ctx, next)
}

// describe reads the keys from a unit's files.
func (u *units) describe(name string, files []stamp) description {
	var all []assignment
	for _, file := range files {
		content, err := readUnitFile(u.root, file.path)
		if err != nil {
			return description{problems: []source.Problem{{
				Object: name, Reason: reasonUnreadable, Message: fmt.Sprintf("whether the unit has keys of Portolan is not known: %v; let the registrar read the file", err),
			}}}
		}
		all = append(all, assignments(content)...)
	}
	return describe(name, all)
}

// readNetwork finds out whether a unit with keys has a network namespace of its own.
func (u *units) readNetwork(ctx context.Context, next *unit) error {
	if !next.registered() {
		return nil
	}
	private, err := property[bool](ctx, u.bus, next.Path, serviceInterface, "PrivateNetwork")
	if err != nil {
		return err
	}
	path, err := property[string](ctx, u.bus, next.Path, serviceInterface, "NetworkNamespacePath")
	next.isolated = private || path != ""
	return err
}

// report returns the report of all units, in the order of their names.
func (u *units) report() source.Report {
	var report source.Report
	for _, name := range slices.Sorted(maps.Keys(u.byID)) {
		next := u.byID[name]
		workload, problem := next.workload()
		switch {
		case !next.registered():
			report.Problems = append(report.Problems, next.description.problems...)
		case problem != nil:
			report.Problems = append(report.Problems, append(slices.Clone(next.description.problems), *problem)...)
		default:
			report.Workloads = append(report.Workloads, workload)
		}
	}
	return report
}

// shortName returns the name of a unit without its suffix.
func shortName(unit string) string { return strings.TrimSuffix(unit, suffix) }
