package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one change of one file.
type mutant struct {
	Package string
	File    string // base name
	Line    int
	Column  int
	Kind    string // the description of the change
	Old     string // the text before the change
	New     string // the text after the change
	Source  string // a hash of the file

	path       string
	start, end int // of Old, in bytes
}

// String returns the mutant's place and change, for people.
func (m mutant) String() string {
	return fmt.Sprintf("%s/%s:%d:%d: %s: `%s` → `%s`", m.Package, m.File, m.Line, m.Column, m.Kind, oneLine(m.Old), oneLine(m.New))
}

// oneLine returns the text on one line, shortened if it is long.
func oneLine(text string) string {
	const most = 60
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// apply returns the contents of the file with the change.
func (m mutant) apply() ([]byte, error) {
	source, err := os.ReadFile(m.path)
	if err != nil {
		return nil, err
	}
	return slices.Concat(source[:m.start], []byte(m.New), source[m.end:]), nil
}

// mutantsOf returns all mutants of the Go files of a folder, in the order of their places. It
// ignores tests and generated files.
func mutantsOf(pkg, dir string) ([]mutant, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if ast.IsGenerated(syntax) {
			continue
		}
		sum := sha256.Sum256(source)
		f := &finder{fset: fset, source: string(source), template: mutant{
			Package: pkg, File: filepath.Base(name), path: name, Source: hex.EncodeToString(sum[:8]),
		}}
		ast.Inspect(syntax, f.visit)
		all = append(all, f.found...)
	}
	return all, nil
}

// finder collects the mutants of a file.
type finder struct {
	fset     *token.FileSet
	source   string
	template mutant
	found    []mutant
}

func (f *finder) text(n ast.Node) string {
	return f.source[f.offset(n.Pos()):f.offset(n.End())]
}

func (f *finder) offset(pos token.Pos) int { return f.fset.Position(pos).Offset }

// add adds a mutant that replaces the text from start to end.
func (f *finder) add(kind string, start, end token.Pos, text string) {
	m := f.template
	place := f.fset.Position(start)
	m.Kind, m.New, m.Line, m.Column = kind, text, place.Line, place.Column
	m.start, m.end = f.offset(start), f.offset(end)
	m.Old = f.source[m.start:m.end]
	f.found = append(f.found, m)
}

// visit adds the mutants of a node.
func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR || n.Tok == token.CONST
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.negate(n.Cond)
		}
	case *ast.SwitchStmt:
		f.cases(n)
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.IncDecStmt:
		f.exchange("count the other way", n.TokPos, n.Tok)
	case *ast.AssignStmt:
		f.assignment(n)
	case *ast.ReturnStmt:
		f.results(n)
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok {
			if f.isLogCall(call) {
				return false
			}
			f.leaveOut("leave out a call", n, call)
		}
	case *ast.DeferStmt:
		f.leaveOut("leave out a deferred call", n, n.Call)
	case *ast.BranchStmt:
		if n.Label == nil && n.Tok != token.FALLTHROUGH {
			f.add("leave out "+n.Tok.String(), n.Pos(), n.End(), "{}")
		}
	}
	return true
}

func (f *finder) negate(cond ast.Expr) {
	f.add("negate a condition", cond.Pos(), cond.End(), "!("+f.text(cond)+")")
}

// cases negates the conditions of a switch without a tag.
func (f *finder) cases(n *ast.SwitchStmt) {
	if n.Tag != nil {
		return
	}
	for _, clause := range n.Body.List {
		for _, cond := range clause.(*ast.CaseClause).List {
			f.negate(cond)
		}
	}
}

// replacementOf maps each operator to its replacement.
var replacementOf = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.AND: token.OR, token.OR: token.AND, token.SHL: token.SHR, token.SHR: token.SHL,
	token.INC: token.DEC, token.DEC: token.INC,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
}

func (f *finder) binary(n *ast.BinaryExpr) {
	kind := "exchange an operator"
	switch n.Op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		kind = "move a boundary"
	}
	f.exchange(kind, n.OpPos, n.Op)
}

func (f *finder) exchange(kind string, at token.Pos, op token.Token) {
	if other, ok := replacementOf[op]; ok {
		f.add(kind, at, at+token.Pos(len(op.String())), other.String())
	}
}

// assignment exchanges the operator of an assignment, and leaves out assignments to existing
// variables. The right side is still evaluated.
func (f *finder) assignment(n *ast.AssignStmt) {
	f.exchange("exchange an operator", n.TokPos, n.Tok)
	if n.Tok != token.ASSIGN || len(n.Lhs) != len(n.Rhs) {
		return
	}
	blank := strings.TrimSuffix(strings.Repeat("_, ", len(n.Lhs)), ", ")
	values := f.source[f.offset(n.Rhs[0].Pos()):f.offset(n.Rhs[len(n.Rhs)-1].End())]
	if text := f.text(n); !strings.HasPrefix(text, "_ =") {
		f.add("leave out an assignment", n.Pos(), n.End(), blank+" = "+values)
	}
}

// results exchanges true and false, and replaces returned errors by nil.
func (f *finder) results(n *ast.ReturnStmt) {
	for _, result := range n.Results {
		switch text := f.text(result); {
		case text == "true":
			f.add("exchange a result", result.Pos(), result.End(), "false")
		case text == "false":
			f.add("exchange a result", result.Pos(), result.End(), "true")
		}
	}
	if len(n.Results) == 0 {
		return
	}
	last := n.Results[len(n.Results)-1]
	if text := f.text(last); strings.HasPrefix(text, "err") || strings.HasPrefix(text, "fmt.Errorf(") {
		f.add("drop an error", last.Pos(), last.End(), "nil")
	}
}

// leaveOut replaces a call by the evaluation of its function and arguments, so that variables and
// imports stay in use.
func (f *finder) leaveOut(kind string, statement ast.Node, call *ast.CallExpr) {
	var parts []string
	if _, builtin := call.Fun.(*ast.Ident); !builtin {
		parts = append(parts, f.text(call.Fun))
	}
	for _, arg := range call.Args {
		parts = append(parts, f.text(arg))
	}
	text := "{}"
	if len(parts) > 0 {
		text = "_ = []any{" + strings.Join(parts, ", ") + "}"
	}
	f.add(kind, statement.Pos(), statement.End(), text)
}

// isLogCall reports whether a call only writes to a log.
func (f *finder) isLogCall(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	level := slices.Contains([]string{"Debug", "Info", "Warn", "Error", "Log"}, selector.Sel.Name)
	return level && strings.Contains(strings.ToLower(f.text(selector.X)), "log")
}
