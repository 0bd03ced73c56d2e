package filter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// builtins are the functions that an expression may call.
func builtins() []string {
	return []string{"len", "lower", "upper", "trim", "int", "float", "string", "all", "none", "any", "one", "count"}
}

// operators are the permitted ones. Not + , which grows texts, and not .. , which makes lists.
func operators() []string {
	return []string{"==", "!=", "<", "<=", ">", ">=", "and", "&&", "or", "||", "in", "contains", "startsWith", "endsWith", "matches", "-", "*", "/", "%", "??"}
}

// looker walks an expression before it is compiled, as compiling computes constants.
type looker struct {
	value bool  // it looks at the value
	err   error // what is not allowed
}

// check allows a fixed part of the language. It lists what is allowed, not what is forbidden: a newer
// version of the library may bring more.
func check(text string) (*looker, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New(`expected an expression such as headers.region == "eu" and value.amount > 100`)
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, oneLine(err)
	}
	l := new(looker)
	ast.Walk(&tree.Node, l)
	return l, l.err
}

// Visit is called for each part.
func (l *looker) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		l.value = l.value || n.Value == "value"
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode, *ast.ConstantNode,
		*ast.UnaryNode, *ast.ChainNode, *ast.MemberNode, *ast.ConditionalNode, *ast.ArrayNode, *ast.PointerNode, *ast.PredicateNode:
	case *ast.BinaryNode:
		l.demand(slices.Contains(operators(), n.Operator), "the operator %s is not allowed", n.Operator)
		if _, constant := n.Right.(*ast.StringNode); n.Operator == "matches" {
			l.demand(constant, "expected a text in quotes after matches")
		}
	case *ast.BuiltinNode:
		l.demand(slices.Contains(builtins(), n.Name), "the function %s is not allowed; there are %s", n.Name, strings.Join(builtins(), ", "))
		l.demand(nested(n) <= 1, "%s within another loop is not allowed", n.Name)
	case *ast.CallNode:
		l.demand(false, "%s can't be called; there are the functions %s", n.Callee, strings.Join(builtins(), ", "))
	default:
		l.demand(false, "%s is not allowed", n)
	}
}

func (l *looker) demand(ok bool, format string, args ...any) {
	if !ok && l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
}

// nested counts the loops within each other from a function on.
func nested(n *ast.BuiltinNode) int {
	d := new(depth)
	var node ast.Node = n
	ast.Walk(&node, d)
	return d.loops
}

// depth counts the predicates below a node: a loop has one.
type depth struct{ loops int }

// Visit is called for each part.
func (d *depth) Visit(node *ast.Node) {
	if _, ok := (*node).(*ast.PredicateNode); ok {
		d.loops++
	}
}

// oneLine is the first line of an error: the library draws the place below it.
func oneLine(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(strings.Replace(text, "unexpected token EOF", "unexpected token: the expression ends too early", 1))
}
