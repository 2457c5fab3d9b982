package queue

import (
	"context"
	"slices"
	"time"
)

// SomeVerbs are those of the program that the tests ask.
var SomeVerbs = []Verb{
	{Name: "status", Roles: []Role{RoleProducer, RoleViewer, RoleOperator}},
	{Name: "show", Roles: []Role{RoleViewer, RoleOperator}},
	{Name: "plan", Roles: []Role{RoleViewer, RoleOperator}, Pace: Slow},
	{Name: "reconcile", Roles: []Role{RoleOperator}, Pace: Slow},
	{Name: "pause", Roles: []Role{RoleOperator}},
}

// ServeMain serves verbs of account main.
func ServeMain(q *JetStream, version string, handlers map[string]Handler) (stop func() error, err error) {
	return Serve(context.Background(), q, Service{Account: "main", Version: version, Verbs: served(handlers), Clock: time.Now})
}

// served are verbs with handlers: those of SomeVerbs, or others that have a name alone.
func served(handlers map[string]Handler) (verbs []Verb) {
	for name, handle := range handlers {
		v := Verb{Name: name}
		if i := slices.IndexFunc(SomeVerbs, func(v Verb) bool { return v.Name == name }); i >= 0 {
			v = SomeVerbs[i]
		}
		v.Handle = handle
		verbs = append(verbs, v)
	}
	return verbs
}
