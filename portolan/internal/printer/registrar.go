package printer

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	registrarv1 "portolan.dev/api/registrar/v1"
)

// RegistrarStatus prints the status of a registrar: its sources with their workloads, and its folder.
func RegistrarStatus(w io.Writer, s *registrarv1.GetStatusResponse) error {
	d := description{out: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	d.line("Node", "%s", s.GetNode())
	view := fmt.Sprintf("revision %d", s.GetViewRevision())
	if !s.GetSynced() {
		view += ", not complete yet"
	}
	d.line("View", "%s", view)
	d.lines("Warnings", s.GetWarnings())
	if err := d.out.Flush(); err != nil {
		return err
	}
	for _, source := range s.GetSources() {
		if err := registrarSource(w, source); err != nil {
			return err
		}
	}
	if s.GetFolder() == nil {
		return nil
	}
	return registrarFolder(w, s.GetFolder())
}

func registrarSource(w io.Writer, s *registrarv1.Source) error {
	state := "answers"
	switch {
	case s.GetError() != "":
		state = "does not answer: " + s.GetError()
	case !s.GetConnected():
		state = "has not answered yet"
	}
	_, _ = fmt.Fprintf(w, "\nSource %s: %s\n", s.GetName(), state)
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	problems := s.GetProblems()
	if len(s.GetWorkloads()) > 0 {
		_, _ = fmt.Fprintln(out, "NAME\tSERVICE\tPOD\tADDRESSES\tPORTS\tSTATE")
	}
	for _, one := range s.GetWorkloads() {
		_, _ = fmt.Fprintf(out, "%s\t%s/%s\t%s\t%s\t%s\t%s\n", one.GetName(), one.GetNamespace(), one.GetService(), orDash(one.GetPod()),
			cmp.Or(strings.Join(one.GetAddresses(), ","), "the node's"), strings.Join(one.GetPorts(), ","), workloadState(one))
		problems = append(problems, one.GetProblems()...)
	}
	for _, p := range problems {
		_, _ = fmt.Fprintf(out, "%s: %s: %s\n", p.GetReason(), p.GetObject(), p.GetMessage())
	}
	return out.Flush()
}

func workloadState(w *registrarv1.Workload) string {
	switch {
	case w.GetTerminating():
		return "terminating"
	case w.GetPod() == "":
		return "not registered"
	case w.GetReady():
		return "ready"
	}
	return "not ready"
}

func registrarFolder(w io.Writer, f *registrarv1.Folder) error {
	d := description{out: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	_, _ = fmt.Fprintln(w)
	d.line("Folder", "%s", f.GetPath())
	d.line("Selector", "%s", cmp.Or(f.GetSelector(), "none: nothing is deleted"))
	d.line("Contents", "%d files, %d objects", f.GetFiles(), f.GetObjects())
	applied := "not yet"
	if f.GetLastApplied() != nil {
		applied = f.GetLastApplied().AsTime().Local().Format(time.DateTime)
	}
	d.line("Applied", "%s", applied)
	var problems []string
	for _, p := range f.GetProblems() {
		problems = append(problems, strings.Join([]string{p.GetFile(), p.GetObject(), p.GetMessage()}, " "))
	}
	d.lines("Problems", problems)
	return d.out.Flush()
}
