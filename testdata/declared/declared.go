// Package declared reads what Go files declare, for tests of documents and of planted
// bugs, which name symbols.
package declared

import "go/ast"

// Names returns what a declaration declares: a method as Type.Method.
func Names(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []string{receiver(d) + d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// receiver is the type of a method and a dot; of a function, nothing.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	if of, ok := t.(*ast.Ident); ok {
		return of.Name + "."
	}
	return ""
}
