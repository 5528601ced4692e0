package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"

	"github.com/securego/gosec/v2"
	"github.com/securego/gosec/v2/analyzers"
	"github.com/securego/gosec/v2/issue"
	"github.com/securego/gosec/v2/rules"
	"golang.org/x/tools/go/packages"
)

// rulesOff are the rules that do not run; see the package's comment.
var rulesOff = []string{"G103", "G104", "G115", "G204", "G304"}

// checkCode prints the findings in all packages of the workspace at dir that are linked into the
// programs. It returns an error if there is any finding.
func checkCode(ctx context.Context, out io.Writer, dir string, programs []string) error {
	paths, err := linked(ctx, dir, programs)
	if err != nil {
		return err
	}
	pkgs, err := load(&packages.Config{
		Context: ctx, Dir: dir,
		// Without NeedDeps, dependencies are read from the compiler's output instead of their sources.
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedTypes |
			packages.NeedTypesSizes | packages.NeedTypesInfo | packages.NeedSyntax | packages.NeedModule,
	}, paths)
	if err != nil {
		return err
	}
	found, files := inspect(pkgs)
	for _, line := range found {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintf(out, "%d packages, %d files, %d findings\n", len(pkgs), files, len(found))
	if len(found) > 0 {
		return fmt.Errorf("%d findings: mend them, or annotate the lines with `// #nosec RULE -- reason`", len(found))
	}
	return nil
}

// linked returns the packages of the workspace's modules that are linked into the programs.
func linked(ctx context.Context, dir string, programs []string) ([]string, error) {
	roots, err := load(&packages.Config{
		Context: ctx, Dir: dir, Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedModule,
	}, programs)
	if err != nil {
		return nil, err
	}
	var paths []string
	for p := range packages.Postorder(roots) {
		if p.Module != nil && p.Module.Main {
			paths = append(paths, p.PkgPath)
		}
	}
	return paths, nil
}

// load returns the packages. It returns an error if a package cannot be read completely, because parts of the
// package would not be checked.
func load(config *packages.Config, patterns []string) ([]*packages.Package, error) {
	pkgs, err := packages.Load(config, patterns...)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, p := range pkgs {
		for _, problem := range p.Errors {
			problems = append(problems, problem)
		}
	}
	return pkgs, errors.Join(problems...)
}

// inspect returns a line for each finding in the packages, in order, and the number of files read.
func inspect(pkgs []*packages.Package) (found []string, files int) {
	config := gosec.NewConfig()
	config.SetGlobal(gosec.NoSecRequireRules, "true")
	config.SetGlobal(gosec.NoSecRequireJustification, "true")
	const tests, excludeGenerated, trackSuppressions, concurrency = false, true, false, 2
	checker := gosec.NewAnalyzer(config, tests, excludeGenerated, trackSuppressions, concurrency, log.New(io.Discard, "", 0))
	checker.LoadRules(rules.Generate(trackSuppressions, rules.NewRuleFilter(true, rulesOff...)).RulesInfo())
	checker.LoadAnalyzers(analyzers.Generate(trackSuppressions, analyzers.NewAnalyzerFilter(true, rulesOff...)).AnalyzersInfo())
	for _, p := range pkgs {
		checker.CheckRules(p)
		checker.CheckAnalyzers(p)
	}
	issues, metrics, mistakes := checker.Report()
	slices.SortFunc(issues, func(a, b *issue.Issue) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(len(a.Line), len(b.Line)), cmp.Compare(a.Line, b.Line), cmp.Compare(a.RuleID, b.RuleID))
	})
	for _, i := range issues {
		found = append(found, fmt.Sprintf("%s:%s: %s %s", i.File, i.Line, i.RuleID, i.What))
	}
	for file, list := range mistakes {
		for _, mistake := range list {
			found = append(found, fmt.Sprintf("%s:%d: %s", file, mistake.Line, mistake.Err))
		}
	}
	return found, metrics.NumFiles
}
